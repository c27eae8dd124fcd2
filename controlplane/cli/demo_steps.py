"""The demo: the flights example through a first run, an idle run, a late file, an edit and its
revert."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controlplane import demo, settings
from controlplane.cli import once, views
from controlplane.cli.output import Lines, TextTable, View, is_fancy, show
from controlplane.cli.progress import ProgressDisplay
from controlplane.cli.session import Running, Session
from controlplane.cli.signals import ending
from controlplane.demo.data import By, lay_out

if TYPE_CHECKING:
    from controlplane.core.model.answers import RunAnswer

BLUEPRINT = "flights.yaml"
SETTING, EDITED = "late_minutes: 15", "late_minutes: 30"
SHOWN = ("by_carrier", "airline", "flights", "cancelled", "mean_arr_delay", "late_share")
SHOWN_ROWS = 8


@dataclass(frozen=True, slots=True)
class DemoStop:
    """One stop of the demo: what changes in the world before the run, and what to look for in its
    result."""

    title: str
    words: str
    change: Callable[[], object]


def take(session: Session, folder: Path | None, by: By) -> int:
    """Run the demo in a folder; 0 if every run ended well."""
    place = folder.absolute() if folder else Path(tempfile.mkdtemp(prefix="headgate-demo-"))
    _say(
        Lines(
            (
                f"Working in {place}.",
                "Getting the data of the example: all flights out of New York in 2013.",
            )
        )
    )
    late = _lay_out(place, by)
    with (
        session.runtime.start(settings.read(place / ".headgate"), "run") as server,
        ending(server.interrupt),
    ):
        values: list[RunAnswer] = []
        for stop in _stops(place, late):
            values.append(_visit(session, server, place, stop, values[-1] if values else None))
            if values[-1]["state"] != "up_to_date":
                break
        if all(v["state"] == "up_to_date" for v in values):
            _results(server)
    tables = [d["table"] for d in values[-1]["datasets"] if d["table"]]
    _say(
        Lines(
            (
                "The tables are Delta tables that any reader of Delta Lake can open, such as",
                *tables[-1:],
            )
        )
    )
    _say(Lines((f"Look around with:  headgate status --home {place / '.headgate'}",)))
    return 0 if all(v["state"] == "up_to_date" for v in values) else 1


def _lay_out(place: Path, by: By) -> tuple[Path, Path]:
    """Blueprint and data, but for the last file of flights, which comes late: (where it waits,
    where it belongs)."""
    source = demo.blueprint_folder()
    shutil.copytree(
        source, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("data", "out", ".headgate")
    )
    lay_out(place / "data", by)
    last = max((place / "data" / "flights").glob("*.csv"))
    waiting = place / f"late-{last.name}"
    last.replace(waiting)
    return waiting, last


def _stops(place: Path, late: tuple[Path, Path]) -> Iterator[DemoStop]:
    blueprint = place / BLUEPRINT
    text = blueprint.read_text()
    waiting, arrived = late
    yield DemoStop("First run", "Everything is computed, once.", lambda: None)
    yield DemoStop(
        "Again", "Nothing changed, so nothing runs: Spark is not even asked.", lambda: None
    )
    yield DemoStop(
        "A late file",
        f"{arrived.name} arrives: only what follows from it runs.",
        lambda: waiting.replace(arrived),
    )
    edited = text.replace(SETTING, EDITED)
    yield DemoStop(
        "An edit",
        f"{SETTING} becomes {EDITED}: its dataset and what follows.",
        lambda: blueprint.write_text(edited),
    )
    yield DemoStop(
        "Its revert",
        "All of it was computed before: a change of pointers.",
        lambda: blueprint.write_text(text),
    )


def _visit(
    session: Session, server: Running, place: Path, stop: DemoStop, before: RunAnswer | None
) -> RunAnswer:
    _heading(stop)
    stop.change()
    started = time.monotonic()
    with ProgressDisplay(sys.stderr) as progress:
        request = once.RunRequest(session.load([place / BLUEPRINT]))
        value = once.make(server, request, progress.show, since=started)
    show(value, views.summary(value if before is None else _news(value, before)), "table")
    return value


def _news(value: RunAnswer, before: RunAnswer) -> RunAnswer:
    """The same, with only those datasets and targets that have moved on."""
    datasets = [d for d in value["datasets"] if d not in before["datasets"]]
    targets = [t for t in value["targets"] if t not in before["targets"]]
    return {**value, "datasets": datasets, "targets": targets}


def _heading(stop: DemoStop) -> None:
    if is_fancy(sys.stdout):
        from rich.console import Console

        console = Console(highlight=False)
        console.rule(f"[bold]{stop.title}", align="left")
        console.print(stop.words, style="italic")
    else:
        _say(Lines(("", f"=== {stop.title}", stop.words)))


def _results(server: Running) -> None:
    from controlplane.client import Headgate

    name, *columns = SHOWN
    with (
        Headgate(server.url, server.token) as client,
        client.records(f"flights.{name}", limit=100) as parts,
    ):
        rows = json.loads(b"".join(parts))
    best = sorted(rows, key=lambda row: row["late_share"])[:SHOWN_ROWS]
    cells = tuple(tuple(_rounded(row[c]) for c in columns) for row in best)
    _say(
        TextTable(
            tuple(c.replace("_", " ") for c in columns),
            cells,
            f"flights.{name}: who is late least often",
        )
    )


def _rounded(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def _say(*view: TextTable | Lines) -> None:
    shown: View = view
    show(None, shown, "table")
    sys.stdout.flush()

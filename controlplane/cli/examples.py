"""The command that runs the tests of blueprints.

Does not belong here: how results are shown (example_views), and what a test is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from controlplane.cli import example_views, failures, options
from controlplane.cli.output import show
from controlplane.core.errors import InvalidBlueprint, NotFound

if TYPE_CHECKING:
    from controlplane.cli.session import Session
    from controlplane.core.model.example_answers import ExampleEntry, ExamplesAnswer


def add(app: typer.Typer) -> None:
    app.command("test")(run_tests)


def run_tests(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Blueprints.", show_default=False)],
    only: Annotated[str, typer.Option("-k", help="Only tests whose dataset or name holds this text.")] = "",
    junit: Annotated[Path | None, typer.Option(help="Also write the results to this file, as JUnit's XML.")] = None,
    output: options.As = options.Form.table,
) -> None:
    """Run the tests of blueprints in one Spark session, without a home. Exits with 1 where one fails."""
    session = options.session(ctx, output)
    answer = _ran(session, files, only, _progress(output))
    if junit is not None:
        junit.write_text(example_views.junit(answer), encoding="utf-8")
    show(answer, example_views.results(answer), session.output)
    raise typer.Exit(failures.ERROR if answer["failed"] else 0)


def _progress(output: options.Form) -> Callable[[ExampleEntry], None]:
    """A line for each test as it ends, where somebody watches and nothing else is written there."""

    def told(entry: ExampleEntry) -> None:
        if output is options.Form.table and sys.stderr.isatty():
            sys.stderr.write(f"{entry['state']:6}  {entry['dataset']}: {entry['name']}\n")

    return told


def _ran(session: Session, files: list[Path], only: str, told: Callable[[ExampleEntry], None]) -> ExamplesAnswer:
    from controlplane.cli import sources
    from controlplane.core.examples.problems import problems
    from controlplane.operations.desired import blueprints
    from controlplane.operations.examples import running

    began = time.monotonic()
    desired = blueprints.compiled(sources.as_sources(session.load(files)))
    if wrong := problems(desired):
        raise InvalidBlueprint(wrong)
    tests = running.named_tests(desired, only)
    if not tests and only:
        raise NotFound(f"no test's dataset or name holds {only!r}")
    if not tests:
        return _answer((), began)
    with session.means.examples() as runner:
        entries = []
        for entry in running.run(desired, tests, runner, time.time()):
            told(entry)
            entries.append(_as_typed(entry, session))
    return _answer(entries, began)


def _as_typed(entry: ExampleEntry, session: Session) -> ExampleEntry:
    """With the names of files that were typed."""
    entry["file"] = session.names.get(entry["file"], entry["file"])
    error = entry["error"]
    if error is not None and error["file"]:
        error["file"] = session.names.get(error["file"], error["file"])
    return entry


def _answer(entries: Iterable[ExampleEntry], began: float) -> ExamplesAnswer:
    tests = list(entries)
    failed = sum(entry["state"] == "failed" for entry in tests)
    return {
        "state": "failed" if failed else "passed",
        "passed": len(tests) - failed,
        "failed": failed,
        "wall_s": round(time.monotonic() - began, 3),
        "tests": tests,
    }

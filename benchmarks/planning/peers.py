"""SQLMesh and Dagster on the same graph, each in an environment of its own, and ratios to ours.

Their scripts stand alone in benchmarks/peers/. Does not belong here: how they are asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypedDict, cast

from benchmarks.planning.results import Entry
from benchmarks.processes import environment

HERE = Path(__file__).resolve().parents[1]
SCRIPTS, PEERS_FILE = HERE / "peers", HERE / "results" / "planner-peers.json"
PEERS = {
    "SQLMesh": ("sqlmesh_plan.py", ("sqlmesh==0.236.4",)),
    "Dagster": ("dagster_tick.py", ("dagster==1.13.28",)),
}


class PeerEntry(TypedDict):
    """What one scenario took elsewhere."""

    peer: str
    scenario: str
    components: int
    partitions: int
    items: int
    median_s: float
    worst_s: float
    peak_mb: float


def measure(sizes: Iterable[tuple[int, int]], runs: int) -> Iterator[PeerEntry]:
    """For each (components, partitions)."""
    for peer, (script, requirements) in PEERS.items():
        python = _environment(peer, requirements)
        for components, partitions in sizes:
            command = [python, "-W", "ignore", SCRIPTS / script, components, partitions, runs]
            done = subprocess.run(
                list(map(str, command)), env=environment(), capture_output=True, text=True
            )
            if done.returncode:
                raise RuntimeError(f"{peer}: {done.stderr[-4000:]}")
            for line in done.stdout.splitlines():
                size = {"peer": peer, "components": components, "partitions": partitions}
                yield _said(cast("PeerEntry", size | json.loads(line)))


def _said(entry: PeerEntry) -> PeerEntry:
    line = "{peer:10} {scenario:12} {components:6} x {partitions:<9} {items:9} items {median_s:10.4f} s".format(
        **entry
    )
    print(line, file=sys.stderr, flush=True)
    return entry


def keep(new: PeerEntry) -> None:
    """In the place of an earlier one of the same scenario and size."""
    entries = {
        (e["peer"], e["scenario"], e["components"], e["partitions"]): e for e in [*load(), new]
    }
    PEERS_FILE.write_text(
        "[\n" + ",\n".join(json.dumps(entries[key]) for key in sorted(entries)) + "\n]\n"
    )


def ratios(
    entries: Sequence[Entry], peers: Iterable[PeerEntry]
) -> Iterator[tuple[PeerEntry, Entry, float]]:
    """Beside the same scenario and size of ours, in the process on SQLite."""
    ours = {
        (e["scenario"], e["components"], e["partitions"]): e
        for e in entries
        if (e["store"], e["via"]) == ("sqlite", "process")
    }
    for peer in peers:
        mine = ours.get((peer["scenario"], peer["components"], peer["partitions"]))
        if mine is not None:
            yield peer, mine, peer["median_s"] / mine["median_s"]


def say_ratios(entries: Sequence[Entry]) -> None:
    for peer, ours, ratio in ratios(entries, load()):
        line = "{scenario:12} {components:6} x {partitions:<9} {peer:10} {median_s:10.4f} s".format(
            **peer
        )
        print(f"{line}, ours {ours['median_s']:10.6f} s: {ratio:,.1f} times", flush=True)


def load() -> list[PeerEntry]:
    return json.loads(PEERS_FILE.read_text()) if PEERS_FILE.exists() else []


def _environment(peer: str, requirements: Sequence[str]) -> Path:
    """The interpreter of an environment that has these, made if it is not there, in the user's
    cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate" / "peers"
    folder = cache / "-".join([peer.lower(), *(r.partition("==")[2] for r in requirements)])
    python, stamp = folder / "bin" / "python", folder / "ready"
    if not stamp.exists():
        print(f"setting up {peer} in {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
        stamp.touch()
    return python

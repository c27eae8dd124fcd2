"""Ten and a hundred million partitions: built once for each kind of database, and gone in the end.

Nothing is copied: runs take back what they did. Does not belong here: what is measured (scenarios).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.planning import ours
from benchmarks.planning.graph import Shape, ring
from benchmarks.planning.results import Entry, entry
from benchmarks.planning.runs import ask, job, say
from benchmarks.planning.scenarios import BY_NAME
from benchmarks.planning.seed import Kind, Seeder
from benchmarks.planning.stores import Databases, Name, open_databases
from benchmarks.planning.world import Found

THOUSAND, MILLIONS = 1000, 100_000_000
FLOW = 10  # components of a dataflow where there are a thousand dataflows
BUILDERS = os.cpu_count() or 1


def measure_huge(
    store: Name, runs: int, scratch: Path | None = None, scale: int = 1
) -> Iterator[Entry]:
    """`scratch`: the folder for files of SQLite. `scale` divides the numbers of partitions, to try
    things out."""
    many = 10_000 // scale
    wide, wider = ring(THOUSAND, many), ring(10 * THOUSAND, many, flow_components=FLOW)
    usual = ("S1", "S2", "S3", "S4/1000")
    graphs: list[tuple[Shape, Kind, Sequence[str]]] = [
        (ring(1, MILLIONS // scale), "done", ("one/1", "one/1000")),
        (wide, "bare", ("S0",)),
        (wide, "done", usual),
        (wider, "done", usual),
    ]
    for shape, kind, names in graphs:
        with open_databases(store, scratch) as databases:
            yield from _measure(databases, shape, kind, names, runs)


def _measure(
    databases: Databases, shape: Shape, kind: Kind, names: Sequence[str], runs: int
) -> Iterator[Entry]:
    url = databases.create("huge")
    yield from _built(databases.name, url, shape, kind)
    databases.seal("huge")
    for name in names:
        yield _entry(name, databases.name, shape, list(_runs(name, url, shape, runs)))


def _built(store_name: Name, url: str, shape: Shape, kind: Kind) -> Iterator[Entry]:
    """Of a graph that is done: how long it took to store all of it, its blueprints told apart."""
    store = ours.open_counted(url)
    seeder = Seeder(store, shape, processes=BUILDERS)
    began = time.perf_counter()
    seeder.accept(kind)
    accepted = Found(
        shape.components, time.perf_counter() - began, store.statements, layers=shape.layers
    )
    began = time.perf_counter()
    seeder.fill(kind)
    size = shape.components * shape.partitions
    filled = Found(
        size,
        time.perf_counter() - began,
        store.statements,
        store.nodes_read,
        seeder.peak_mb,
        shape.layers,
    )
    store.close()
    if kind == "done":
        yield _entry("build/blueprints", store_name, shape, [accepted])
        yield _entry("build", store_name, shape, [filled])


def _runs(name: str, url: str, shape: Shape, runs: int) -> Iterator[Found]:
    """A process for each run that begins with nothing known; for the others one for all."""
    is_cold = BY_NAME[name].is_cold
    for each in [job(name, url, shape, 1 if is_cold else runs, is_shared=True)] * (
        runs if is_cold else 1
    ):
        yield from (Found(**found) for found in ask(each)["found"])


def _entry(name: str, store: Name, shape: Shape, runs: Sequence[Found]) -> Entry:
    made = entry(name, store, "process", shape.components, shape.partitions, runs)
    say(made)
    return made

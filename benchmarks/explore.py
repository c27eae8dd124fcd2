"""What looking through many components costs: search, a neighbourhood, a dataflow, all by dataflow,
and waves.

    python -m benchmarks.explore [COMPONENTS [PARTITIONS]]

SQLite, a planner that has looked before, as in a service. Processor time and wall time, the median
of some rounds. Does not belong here: planning itself (`benchmarks.planning`).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

from benchmarks.planning import ours
from benchmarks.planning.graph import Shape, ring
from benchmarks.planning.seed import Seeder
from controlplane.operations.context import Context
from controlplane.operations.explore.catalogue import catalogue
from controlplane.operations.explore.graph import graph
from controlplane.operations.explore.search import search
from controlplane.operations.explore.waves import waves
from controlplane.store import upgrade

ROUNDS = 7
COMPONENTS, PARTITIONS = 5_000, 100


def seeded(home: Path, shape: Shape) -> Context:
    url = f"sqlite:///{home / 'metadata.db'}"
    upgrade(url)
    store = ours.open_counted(url)
    Seeder(store, shape).seed("done")
    return Context(store)


def looks(ctx: Context, shape: Shape) -> Mapping[str, Callable[[], object]]:
    flow = shape.flow(0)
    return {
        "search, a name": lambda: search(ctx, "main", "l5_7"),
        "search, a column": lambda: search(ctx, "main", "col:v"),
        "search, a state": lambda: search(ctx, "main", "state:failed"),
        "search, a partition": lambda: search(ctx, "main", "p0000000"),
        "search, two words": lambda: search(ctx, "main", "graph3 p00000001"),
        "catalogue": lambda: catalogue(ctx, "main", "", {}),
        "catalogue, a word": lambda: catalogue(ctx, "main", "l5 col:v", {"kind": "sql"}),
        "neighbourhood": lambda: graph(ctx, "main", around=shape.dataset(5, 7)),
        "dataflow": lambda: graph(ctx, "main", flow),
        "all by dataflow": lambda: graph(ctx, "main", collapse="flow"),
        "waves of a dataflow": lambda: waves(ctx, "main", flow, before=None, limit=20),
        "waves of all": lambda: waves(ctx, "main", None, before=None, limit=20),
    }


def measured(look: Callable[[], object]) -> tuple[float, float]:
    """Processor and wall time, in milliseconds, once all is warm."""
    look()
    used, took = [], []
    for _ in range(ROUNDS):
        began, clock = time.process_time(), time.perf_counter()
        look()
        used.append(time.process_time() - began)
        took.append(time.perf_counter() - clock)
    return median(used) * 1000, median(took) * 1000


def main(components: int = COMPONENTS, partitions: int = PARTITIONS) -> None:
    shape = ring(components, partitions)
    with tempfile.TemporaryDirectory() as home:
        ctx = seeded(Path(home), shape)
        print(f"{shape.components:,} components of {partitions:,} partitions; processor / wall, ms")
        for name, look in looks(ctx, shape).items():
            used, took = measured(look)
            print(f"{name:22} {used:6.0f} {took:6.0f}", flush=True)
        ctx.store.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

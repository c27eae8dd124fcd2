"""Runs of one scenario in this process, which has done nothing else: python -m
benchmarks.planning.child JOB

JOB is a Job as JSON; a line of JSON answers it. Several runs share a planner and a process. Does
not belong here: who starts it (runs).
"""

from __future__ import annotations

import time

from controlplane.garbage import collect_rarely

BEGAN = time.perf_counter()  # what is imported here is what planning needs
collect_rarely()  # as the command does

import json  # noqa: E402
import sys  # noqa: E402

from benchmarks.planning import sources  # noqa: E402
from benchmarks.planning.graph import Shape  # noqa: E402
from benchmarks.planning.job import Job  # noqa: E402
from benchmarks.planning.scenarios import BY_NAME, Scenario  # noqa: E402
from benchmarks.planning.world import Void, World  # noqa: E402

IMPORTS_S = time.perf_counter() - BEGAN
VOID = 3  # exit status


def main() -> None:
    job = Job(**json.loads(sys.argv[1]))
    world = World(job.url, Shape(job.layers, job.width, job.columns, job.partitions))
    try:
        found = [
            _run(BY_NAME[job.scenario], world, number, job.is_shared) for number in range(job.runs)
        ]
    except Void as void:
        print(f"{job.scenario}: {void}", file=sys.stderr)
        sys.exit(VOID)
    finally:
        world.close()
    print(json.dumps({"found": found, "imports_s": IMPORTS_S}))


def _run(scenario: Scenario, world: World, number: int, is_shared: bool) -> dict[str, float]:
    world.run = number
    if not is_shared or scenario.is_cold:  # what is opened here is opened cold
        scenario.run(world)
        return world.found.json()
    before = sources.listings(world.store, world.desired)
    scenario.run(world)
    sources.put_back(world.store, before)
    return world.found.json()


if __name__ == "__main__":
    main()

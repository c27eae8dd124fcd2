"""Runs of scenarios, each in a process of its own on a copy of its own, and what they came to.

Does not belong here: what is measured in them (scenarios), which are wanted (the command).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.planning import ours, remote
from benchmarks.planning.graph import Shape
from benchmarks.planning.job import Job
from benchmarks.planning.results import Entry, Nothing, Via, entry
from benchmarks.planning.scenarios import BY_NAME, Scenario
from benchmarks.planning.seed import Kind, Seeder
from benchmarks.planning.stores import Databases
from benchmarks.planning.world import Found, Void
from benchmarks.processes import environment

ROOT = Path(__file__).resolve().parents[2]
VOID = 3


@dataclass(slots=True)
class Bench:
    """Measurements on one kind of store and one shape of graph; seeds are made when they are first
    needed."""

    databases: Databases
    shape: Shape
    runs: int
    _seeds: set[str] = field(default_factory=set)

    def measure(self, names: Sequence[str], services: Sequence[str]) -> Iterator[Entry | Nothing]:
        for name in names:
            yield from self._counting(name, "process", self._in_process)
        for name in services:
            yield from self._counting(name, "service", self._through_service)

    def _counting(
        self, name: str, via: Via, measure: Callable[[Scenario], Iterator[Entry]]
    ) -> Iterator[Entry | Nothing]:
        """The others go on if one is void."""
        try:
            yield from measure(BY_NAME[name])
        except Void as void:
            print(f"void: {void}", file=sys.stderr, flush=True)
            yield Nothing(
                (name, self.databases.name, via, self.shape.components, self.shape.partitions)
            )

    def _in_process(self, scenario: Scenario) -> Iterator[Entry]:
        """Every run in a new process; of a cold one also the time that its imports take."""
        answers = [self._child(scenario) for _ in range(self.runs)]
        yield self._entry(scenario.name, "process", [found for found, _ in answers])
        if scenario.name == "S1":
            yield self._entry(
                "S1/imports", "process", [Found(seconds=imports_s) for _, imports_s in answers]
            )

    def _through_service(self, scenario: Scenario) -> Iterator[Entry]:
        yield self._entry(
            scenario.name, "service", [self._served(scenario, n) for n in range(self.runs)]
        )

    def close(self) -> None:
        for name in self._seeds:
            self.databases.drop(name)

    def _entry(self, name: str, via: Via, runs: Sequence[Found]) -> Entry:
        shape = self.shape
        made = entry(name, self.databases.name, via, shape.components, shape.partitions, runs)
        say(made)
        return made

    def _child(self, scenario: Scenario) -> tuple[Found, float]:
        url = self._copy(scenario.seed)
        answer = ask(job(scenario.name, url, self.shape))
        self.databases.drop("copy")
        return Found(**answer["found"][0]), float(answer["imports_s"])

    def _served(self, scenario: Scenario, number: int) -> Found:
        url = self._copy(scenario.seed)
        found = remote.run(scenario.name, url, self.shape, scenario.work(self.shape), number)
        self.databases.drop("copy")
        return found

    def _copy(self, kind: Kind) -> str:
        seed = f"{kind}_{self.shape.components}_{self.shape.partitions}"
        if seed not in self._seeds:
            store = ours.open_counted(self.databases.create(seed))
            Seeder(store, self.shape, processes=2).seed(kind)
            store.close()
            self.databases.seal(seed)
            self._seeds.add(seed)
        self.databases.drop("copy")
        return self.databases.copy(seed, "copy")


def job(scenario: str, url: str, shape: Shape, runs: int = 1, *, is_shared: bool = False) -> Job:
    return Job(
        scenario, url, shape.layers, shape.width, shape.columns, shape.partitions, runs, is_shared
    )


def ask(job: Job) -> Any:
    """Measure in a new process. Raises Void if wrong work came out there."""
    command = [sys.executable, "-m", "benchmarks.planning.child", json.dumps(asdict(job))]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    if done.returncode == VOID:
        raise Void(done.stderr.strip())
    if done.returncode:
        raise RuntimeError(f"{job.scenario}: {done.stderr[-4000:]}")
    return json.loads(done.stdout)


def say(entry: Entry) -> None:
    line = (
        "{scenario:12} {store:10} {via:7} {components:6} x {partitions:<9} {items:9} items {median_s:10.4f} s "
        "(worst {worst_s:.4f}) {statements:5} statements {nodes_read:6} nodes {peak_mb:7.0f} MB".format(
            **entry
        )
    )
    print(line, file=sys.stderr, flush=True)

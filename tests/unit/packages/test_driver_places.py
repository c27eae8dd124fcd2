"""Claims of a driver: those with packages, which have a process each, and the others."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from dataplane.contract.claims import Claim
from dataplane.contract.kinds import Kind, placement_of, placements_for
from dataplane.contract.results import Measures, TaskResult
from dataplane.runtime.client import Client, Ended, Heartbeat, Reported
from dataplane.runtime.driver import CLAIMERS, DriverLoop
from dataplane.runtime.package_claims import PARALLEL
from dataplane.spark.java import NoJava


class PackagedWork:
    """A control plane that has claims with packages alone, none of which ends before the others of
    the driver's threads have asked for ordinary work."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._count = 0
        self._lock = threading.Lock()
        self._ordinary_calls = threading.Semaphore(0)
        self._may_end = threading.Event()

    def claim(self, kinds: Iterable[Kind], *, takes_packages: bool) -> Claim | None:
        if not takes_packages:
            self._ordinary_calls.release()
            self._may_end.wait()
            raise Ended("no further work")
        with self._lock:
            self._count += 1
            return packaged_claim(str(self._lake), f"{self._count:032x}")

    def heartbeat(self, attempts: Iterable[str], *, spark: bool = False) -> Heartbeat:
        return Heartbeat((), drain=False)

    def report(
        self, attempt: str, results: Sequence[TaskResult], measures: Measures | None = None
    ) -> Reported:
        self._may_end.wait()
        return Reported((), ())

    def close(self) -> None:
        self._may_end.set()

    def await_ordinary_calls(self, count: int) -> None:
        for _ in range(count):
            assert self._ordinary_calls.acquire(timeout=60)
        self._may_end.set()


def packaged_claim(lake: str, attempt: str) -> Claim:
    settings = {"format": "mongodb", "packages": ["org.example:source:1"]}
    job = {"connector": "spark", "settings": settings, "format": "mongodb"}
    task = {"task": "00", "epoch": 1, "partition": "p", "objects": []}
    claim: Any = {"kind": "parse", "attempt": attempt, "job": job, "tasks": [task]}
    claim |= {"dataset": "shop.orders", "prefix": f"p/{attempt}", "lake": lake, "lease_s": 30.0}
    return cast("Claim", claim)


def no_spark() -> SparkSession:
    raise NoJava("none is needed")


def test_claims_with_packages_leave_threads_for_other_work(tmp_path: Path) -> None:
    work = PackagedWork(tmp_path)
    driver = DriverLoop(cast("Client", work), no_spark, tmp_path)
    running = threading.Thread(target=driver.run)
    running.start()
    work.await_ordinary_calls(CLAIMERS - PARALLEL)
    running.join(60)
    assert not running.is_alive()


def test_tasks_with_packages_are_for_drivers_that_have_a_place() -> None:
    packaged = placement_of("parse", "spark", has_packages=True)
    assert packaged != placement_of("parse", "spark")
    assert packaged in placements_for(["parse"])
    assert packaged not in placements_for(["parse"], takes_packages=False)
    assert packaged not in placements_for(["list", "write"])

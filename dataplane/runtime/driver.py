"""A driver process: one warm Spark session, a few threads that claim, execute and report, and one
that keeps leases.

The JVM starts before anything else is imported: functions import what works with Spark, most of it
while the JVM starts.
"""

from __future__ import annotations

import json
import logging
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dataplane.contract.claims import Claim, TaskSpec
from dataplane.contract.failpoints import failpoint
from dataplane.contract.kinds import DRIVER_KINDS, KINDS
from dataplane.contract.results import Measures, TaskResult, task_error
from dataplane.fragments.attempt import Cancelled
from dataplane.fragments.task_results import task_result
from dataplane.runtime.client import AttemptFenced, CallRefused, Client, Ended
from dataplane.runtime.measures import measured
from dataplane.runtime.package_claims import PARALLEL, packages_of, perform
from dataplane.spark.java import NoSpark, provide_java
from dataplane.spark.scratch import open_scratch, sweep
from dataplane.storage.lake import Lake, open_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dataplane.runtime.executor import Executor

CLAIMERS = 4
IDLE_BEAT_S = 10.0
LAST_WORDS_S = 10.0  # what runs without Spark has ended long before

log = logging.getLogger("headgate.driver")


def run(client: Client) -> int:
    """Work until the order to end; the exit status. Nothing of ours is left running or lying
    about."""
    sweep()
    scratch, _lock = open_scratch()
    with ExitStack() as until_the_end:
        until_the_end.callback(shutil.rmtree, scratch, ignore_errors=True)
        driver = DriverLoop(client, lambda: _start(scratch, until_the_end), scratch)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: driver.drain())
        return driver.run()


def _start(scratch: Path, until_the_end: ExitStack) -> SparkSession:
    from dataplane.spark.spark_session import start
    from dataplane.spark.warmup import meanwhile, spark_conf

    provide_java()  # fetched, perhaps: only then is it known whose archive of classes is missing
    until_the_end.enter_context(meanwhile())
    return start(scratch, spark_conf())


class DriverLoop:
    """Claims may be waited for, and come, while Spark starts."""

    def __init__(
        self, client: Client, start_spark: Callable[[], SparkSession], scratch: Path
    ) -> None:
        self._client, self._start_spark, self._scratch = client, start_spark, scratch
        self._spark: Future[SparkSession] = Future()
        # PySpark's modules import each other: one thread imports them before others do
        self._has_pyspark = threading.Event()
        self._executors: dict[str, Executor] = {}
        self._reported_places: Measures | None = None
        self._running: dict[str, float] = {}  # attempt -> its lease in seconds
        self._fenced: set[str] = set()
        self._package_places = threading.BoundedSemaphore(PARALLEL)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._is_beat_due = False
        self._draining = False
        self._over = threading.Event()
        self._status = 0

    def run(self) -> int:
        for target in (self._start, self._beat, *[self._claim_all] * CLAIMERS):
            threading.Thread(target=self._guarded, args=(target,), daemon=True).start()
        with self._changed:
            while not self._over.is_set() and not (self._draining and not self._running):
                self._changed.wait(0.2)  # a signal is handled between waits
        self._client.close()
        is_gone = self._has_spark() and not self._is_alive()
        self._stop_spark()
        if is_gone:  # the last line: the process that started this one shows it
            # Without Spark, what still runs ends at once, and says so before it is taken out
            with self._changed:
                self._changed.wait_for(lambda: not self._running, LAST_WORDS_S)
            from dataplane.spark.jvm_exit import how_ended

            log.error("event=spark-gone reason=%s", json.dumps(how_ended()))
        return self._status

    def drain(self) -> None:
        """Finish what runs, take nothing new, end. May be called by a signal handler, so it takes
        no lock."""
        self._draining = True

    def _guarded(self, target: Callable[[], None]) -> None:
        """No thread ends unseen: an unforeseen error ends the driver, and its leases run out."""
        try:
            target()
        except Ended as e:
            log.info("event=ended reason=%s", json.dumps(str(e)))
            self._end(0)
        except BaseException:
            if not self._over.is_set():  # else an effect of the end
                log.exception("event=broken")
            self._end(1)

    def _end(self, status: int) -> None:
        with self._changed:
            self._status = max(self._status, status)
            self._over.set()
            self._changed.notify_all()

    # Spark

    def _start(self) -> None:
        try:
            self._start_session()
        finally:
            with self._changed:
                self._is_beat_due = True  # it says that the start is over
                self._changed.notify_all()

    def _start_session(self) -> None:
        import pyspark.sql  # noqa: F401

        self._has_pyspark.set()
        began = time.monotonic()
        try:
            self._spark.set_result(self._start_spark())
        except NoSpark as e:
            log.error("event=%s reason=%s", e.condition, json.dumps(str(e)))
            self._spark.set_exception(e)  # each task is answered with it: waiting would not help
            return
        except BaseException as e:
            self._spark.set_exception(e)
            raise
        log.info("event=spark-started seconds=%.2f", time.monotonic() - began)

    def _executor(self, lake: str) -> Executor:
        self._has_pyspark.wait()
        from dataplane.runtime.executor import Executor

        spark = self._spark.result()
        with self._lock:
            if lake not in self._executors:
                self._executors[lake] = Executor(spark, open_lake(lake), self._scratch)
            return self._executors[lake]

    def _has_spark(self) -> bool:
        return self._spark.done() and self._spark.exception() is None

    def _is_alive(self) -> bool:
        from dataplane.spark.spark_session import is_alive

        return is_alive(self._spark.result())

    def _stop_spark(self) -> None:
        if self._has_spark():
            from dataplane.spark.spark_session import stop

            for executor in self._executors.values():
                executor.close()
            stop(self._spark.result())

    # leases

    def _beat(self) -> None:
        last = time.monotonic()
        while not self._over.is_set():
            with self._changed:
                while (
                    not self._is_beat_due
                    and (left := last + self._interval() - time.monotonic()) > 0
                ):
                    if self._over.is_set():
                        return
                    self._changed.wait(left)
                self._is_beat_due = False
                attempts = list(self._running)
            last = time.monotonic()
            answer = self._client.heartbeat(attempts, spark=self._spark.done())
            for attempt in answer.fenced:
                self._fence(attempt)
            if answer.drain:
                self.drain()

    def _interval(self) -> float:
        """Seconds between heartbeats; without an attempt they only ask whether to end."""
        return min([*(lease / 3 for lease in self._running.values()), IDLE_BEAT_S])

    def _fence(self, attempt: str) -> None:
        with self._lock:
            if attempt in self._fenced or attempt not in self._running:
                return
            self._fenced.add(attempt)
            executors = list(self._executors.values())
        log.info("event=fenced attempt=%s", attempt)
        for executor in executors:
            executor.cancel(attempt)

    # work

    def _claim_all(self) -> None:
        while not self._draining and not self._over.is_set():
            # Claims with packages have a process each. One that waited for a process would keep
            # this thread from other work
            holds_place = self._package_places.acquire(blocking=False)
            claim = self._client.claim(DRIVER_KINDS, takes_packages=holds_place)
            if holds_place and (claim is None or not packages_of(claim)):
                self._package_places.release()
                holds_place = False
            if claim is not None:
                self._work(claim)
            if holds_place:
                self._package_places.release()

    def _work(self, claim: Claim) -> None:
        attempt = claim["attempt"]
        with self._changed:
            self._running[attempt] = claim["lease_s"]
            self._changed.notify_all()
        began = time.monotonic()
        log.info(_BEGIN, attempt, claim["dataset"], claim["kind"], len(claim["tasks"]))
        try:
            states = self._execute(claim)
            seconds = time.monotonic() - began
            log.info(
                _LINE,
                attempt,
                claim["dataset"],
                claim["kind"],
                len(claim["tasks"]),
                json.dumps(states),
                seconds,
            )
        except Cancelled:
            log.info("event=stopped attempt=%s", attempt)
        finally:
            with self._changed:
                del self._running[attempt]
                self._fenced.discard(attempt)
                self._changed.notify_all()

    def _execute(self, claim: Claim) -> dict[str, int]:
        if packages_of(claim):
            return self._execute_apart(claim)
        try:
            executor = self._executor(claim["lake"])
        except NoSpark as e:
            self._report(claim, [refusal(t, e) for t in claim["tasks"]], measured(claim, 0.0))
            return {"failed": len(claim["tasks"])}
        with self._lock:
            if claim["attempt"] in self._fenced:
                raise Cancelled(claim["attempt"])
        began = time.monotonic()
        results = executor.run(claim)
        measures = self._measures(claim, time.monotonic() - began)
        self._hand_in(executor.lake, claim, results, measures)
        if not self._is_alive():
            log.error("event=without-spark attempt=%s", claim["attempt"])
            self._end(1)  # the process that started this one starts another
        return dict(Counter(r["state"] for r in results))

    def _execute_apart(self, claim: Claim) -> dict[str, int]:
        """In a process with a Spark of its own: this driver's may still start."""
        began = time.monotonic()
        answer = perform(claim, _Fence(self._fenced, claim["attempt"]))
        seconds = time.monotonic() - began
        measures: Measures = {**measured(claim, seconds), **answer["measures"]}
        self._hand_in(open_lake(claim["lake"]), claim, answer["results"], measures)
        return dict(Counter(r["state"] for r in answer["results"]))

    def _measures(self, claim: Claim, seconds: float) -> Measures:
        """The attempt's measures, with Spark's counts where Spark still answers."""
        from dataplane.spark.job_counts import counts

        measures = measured(claim, seconds)
        spark = self._spark.result()
        try:
            return {**measures, **counts(spark, claim["attempt"]), **self._places(spark)}
        except Exception as e:  # noqa: BLE001  # results are reported also where counting fails
            log.info(
                "event=not-counted attempt=%s reason=%s", claim["attempt"], json.dumps(str(e)[:200])
            )
            return measures

    def _places(self, spark: SparkSession) -> Measures:
        """They stay the same as long as the session."""
        from dataplane.spark.job_counts import places

        if self._reported_places is None:
            self._reported_places = places(spark)
        return self._reported_places

    def _hand_in(
        self, lake: Lake, claim: Claim, results: Sequence[TaskResult], measures: Measures
    ) -> None:
        if KINDS[claim["kind"]].has_manifest:
            from dataplane.runtime.manifest import write_manifest

            failpoint("driver-before-manifest")
            write_manifest(lake, claim, results)
            failpoint("driver-after-manifest")
        failpoint("driver-before-report")
        self._report(claim, results, measures)

    def _report(self, claim: Claim, results: Sequence[TaskResult], measures: Measures) -> None:
        try:
            self._client.report(claim["attempt"], results, measures)
        except AttemptFenced:
            log.info("event=fenced attempt=%s", claim["attempt"])
        except CallRefused as e:
            log.error("event=refused attempt=%s reason=%s", claim["attempt"], json.dumps(str(e)))


@dataclass(frozen=True, slots=True)
class _Fence:
    """Whether an attempt is among those that were fenced."""

    fenced_attempts: Set[str]
    attempt: str

    @property
    def fenced(self) -> bool:
        return self.attempt in self.fenced_attempts


# Lines without an attempt, as of Spark, are shown with the attempts that are between these two
_BEGIN = "event=begin attempt=%s dataset=%s kind=%s tasks=%d"
_LINE = "event=attempt attempt=%s dataset=%s kind=%s tasks=%d states=%s seconds=%.2f"


def refusal(task: TaskSpec, reason: NoSpark) -> TaskResult:
    """A failure that trying again does not mend; a later `run` or `retry` tries again."""
    return task_result(task, task_error("user", reason.condition, str(reason)))

"""Answers questions of `contract.query_protocol` by Spark, one after the other, each query in a
session of its own.

Jobs of a query that outlives its deadline, or whose caller has gone, are cancelled; if that does
not end it, the kernel ends this process.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dataplane.contract.query_protocol import (
    GRACE_S,
    ProcessBounds,
    QueryQuestion,
    Ran,
    Refusal,
    SparkRun,
)
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Json
from dataplane.query.query_worker import DEADLINE, MEMORY, Pieces, page, write_last
from dataplane.query.statement import StatementRefused
from dataplane.runtime.spark_query.rows import write
from dataplane.runtime.spark_query.session_views import add_views, session_for
from dataplane.spark.isolation import reset_catalogue
from dataplane.spark.java import NoSpark
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_session import cancel_group, claim_thread, is_alive, start
from dataplane.spark.sql_positions import offset_of
from dataplane.spark.warmup import spark_conf
from dataplane.storage.lake import open_lake
from dataplane.task_failures import DAMAGED, GONE
from dataplane.transform.parameters import sql

STARTING = "Spark starts, which took all of the {seconds:g} s; ask again soon"
DISK = "the query takes more than {disk} MB of disk; narrow it"
STOPPED = "the query was stopped"
SOONEST_S = 0.05
LOOK_S = 1.0  # between looks at what lies in the scratch folder
WARM = "SELECT count(*) AS n, max(concat('a', id)) AS m FROM range(1000) GROUP BY id % 7 ORDER BY n"


class SparkQueryWorker:
    """One thread asks; others may start it and stop its questions."""

    def __init__(self, bounds: ProcessBounds, out: BinaryIO) -> None:
        self._bounds, self._out = bounds, out
        self._lake = open_lake(bounds["lake"])
        self._spark: Future[SparkSession] = Future()
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._stopped = 0  # the last question that was to end
        self.is_alive = True

    def start(self) -> None:
        """Have Spark, and its first query, which takes longest, behind us."""
        try:
            spark = _started(self._bounds)
            session_for(spark, SETTINGS).sql(WARM).collect()
            self._spark.set_result(spark)
        except BaseException as e:  # noqa: BLE001  # each query gets the error
            self._spark.set_exception(e)

    def stop(self, question: int) -> None:
        """If it runs, or is to run next. It answers that it was stopped."""
        with self._lock:
            self._stopped, running = question, self._running
        if running is not None and running.number == question:
            running.end("stopped", STOPPED)

    def answer(self, number: int, question: QueryQuestion, came: float) -> None:
        """Write the frames of one answer. Without a living Spark this process ends, as an idle one
        does: the caller turns to another one."""
        if self._has_lost_spark():
            return
        try:
            value: Json = self._value(number, question, came)
        except StatementRefused as e:
            value = {"refusal": e.refusal}
        write_last(self._out, value)

    def _has_lost_spark(self) -> bool:
        has_spark = self._spark.done() and self._spark.exception() is None
        self.is_alive = not has_spark or is_alive(self._spark.result())
        return not self.is_alive

    def _value(self, number: int, question: QueryQuestion, came: float) -> Json:
        if question["ask"] == "spark":
            return self._run(
                number, question, max(SOONEST_S, question["seconds"] + came - time.monotonic())
            )
        if question["ask"] == "page":
            return page(question, Pieces(self._out))
        raise ValueError(f"not asked of Spark: {question['ask']}")

    def _run(self, number: int, question: SparkRun, seconds: float) -> Ran:
        with self._runs(number, question, seconds) as running:
            spark = self._started(question, seconds)
            try:
                running.begin(spark)
                return self._rows(spark, question, running)
            except Exception as error:
                raise self._users_error(error, running, question, spark) from error
            finally:
                running.over()
                self._clear(spark)

    def _started(self, question: SparkRun, seconds: float) -> SparkSession:
        try:
            return self._spark.result(seconds)
        except TimeoutError:
            raise _refused("limit", STARTING.format(seconds=question["seconds"])) from None
        except Exception as e:
            self.is_alive = False  # the next question gets another process
            message = str(e) if isinstance(e, NoSpark) else f"{type(e).__name__}: {e}"
            raise _refused("none", f"Spark does not start: {message}") from e

    def _rows(self, spark: SparkSession, question: SparkRun, running: _Running) -> Ran:
        session = session_for(spark, question["settings"])
        views = add_views(session, self._lake, question["tables"])
        rows = sql(session, question["sql"], question["parameters"], views)
        out = cast("BinaryIO", Pieces(self._out))  # as much of a file as Arrow needs
        scratch = Path(self._bounds["scratch"]) / f"rows-{running.number}"
        return write(rows, out, question["limit"], scratch, running.check)

    def _clear(self, spark: SparkSession) -> None:
        """Reset the state that sessions share."""
        try:
            reset_catalogue(spark)
        except Exception:  # noqa: BLE001  # of a JVM that has ended
            self.is_alive = False
        self.is_alive = self.is_alive and is_alive(spark)

    @contextmanager
    def _runs(self, number: int, question: SparkRun, seconds: float) -> Iterator[_Running]:
        """Its deadline, and its bound of disk."""
        running = _Running(number)
        with self._lock:
            self._running = running
            is_stopped = self._stopped == number
        if is_stopped:
            running.end("stopped", STOPPED)
        timer = threading.Timer(
            seconds, running.end, ("limit", DEADLINE.format(seconds=question["seconds"]))
        )
        timer.daemon = True
        timer.start()
        threading.Thread(target=self._watch, args=(running,), name="disk", daemon=True).start()
        # There is no handler: the kernel ends this process
        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_S)
        try:
            yield running
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            timer.cancel()
            with self._lock:
                self._running = None

    def _watch(self, running: _Running) -> None:
        scratch, most = Path(self._bounds["scratch"]), self._bounds["disk_bytes"]
        while not running.is_over.wait(LOOK_S):
            if _size_bytes(scratch) > most:
                running.end("limit", DISK.format(disk=most >> 20))
                return

    def _users_error(
        self, error: Exception, running: _Running, question: SparkRun, spark: SparkSession
    ) -> Exception:
        """The refusal that a user gets for an error. An error that is not the user's is returned as
        it is, and ends this process. If Spark has ended, this process ends, too, after the
        answer."""
        if running.ended is not None:
            return StatementRefused(running.ended)
        names = {table["view"]: table["name"] for table in question["tables"]}
        record = explain(
            error, ErrorSource(sql=question["sql"], original=question["sql"], views=names)
        )
        sys.stderr.write(record["detail"])
        if not is_alive(spark):
            self.is_alive = False
            memory, disk = (self._bounds[name] >> 20 for name in ("memory_bytes", "disk_bytes"))
            is_memory = "memory" in record["message"]
            return (
                _refused("limit", MEMORY.format(memory=memory, disk=disk))
                if is_memory
                else _crashed(record)
            )
        if record["condition"] in (GONE, DAMAGED):
            return _refused("lake", record["message"])
        if record["kind"] == "infrastructure":
            return _refused("lake", record["message"]) if isinstance(error, OF_SPARK) else error
        return _refused(
            "refused", record["message"].partition("\n")[0], _offset(question["sql"], record)
        )


OF_SPARK = (PySparkException, Py4JError, OSError)
SETTINGS = {"ansi": True, "case_sensitive": False, "timezone": "UTC"}


class _Running:
    """The query that runs. `ended`: why it is to end early, if it is."""

    def __init__(self, number: int) -> None:
        self.number, self.ended, self.is_over = number, None, threading.Event()
        self._spark: SparkSession | None = None
        self._lock = threading.Lock()

    ended: Refusal | None

    def begin(self, spark: SparkSession) -> None:
        claim_thread(spark, self._group)
        with self._lock:
            self._spark = spark
        self.check()

    def check(self) -> None:
        """Raises QueryRefused where it is to end."""
        if self.ended is not None:
            raise StatementRefused(self.ended)

    def end(self, kind: str, message: str) -> None:
        """Jobs that run, and those that it would start, fail; the first reason is reported."""
        with self._lock:
            if self.is_over.is_set():
                return
            refusal = _refused(kind, message).refusal
            self.ended, spark = self.ended or refusal, self._spark
        if spark is not None:
            with suppress(Exception):  # of a JVM that has ended
                cancel_group(spark, self._group)

    def over(self) -> None:
        with self._lock:
            self.is_over.set()

    @property
    def _group(self) -> str:
        return f"query-{self.number}"


def _started(bounds: ProcessBounds) -> SparkSession:
    ours = {
        "spark.master": "local[2]",
        "spark.driver.memory": f"{bounds['memory_bytes'] >> 20}m",
        "spark.driver.maxResultSize": "0",  # partitions are taken one at a time
        "spark.log.level": "ERROR",
    }
    return start(Path(bounds["scratch"]), {**spark_conf(), **ours})


def _size_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # it went meanwhile
            total += path.stat().st_size
    return total


def _offset(text: str, record: TaskError) -> int | None:
    line, column = record["line"], record["column"]
    return None if line is None or column is None else offset_of(text, line, column - 1)


def _crashed(record: TaskError) -> StatementRefused:
    return _refused(
        "limit", f"{record['message']}; nothing else is affected, and another one is started"
    )


def _refused(kind: str, message: str, at: int | None = None) -> StatementRefused:
    return StatementRefused({"kind": kind, "message": message, "at": at})  # type: ignore[typeddict-item]  # one of them

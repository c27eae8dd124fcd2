"""The one warm Spark session of a driver, and the fresh sessions that tasks run in."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.errors import IllegalArgumentException
from pyspark.errors.utils import is_debugging_enabled
from pyspark.sql import SparkSession

from dataplane.contract.schemas import Json
from dataplane.spark import class_archive, local_filesystem
from dataplane.spark.java import NoSpark, provide_java
from dataplane.spark.spark_errors import explain

# How files are written. Set again before each write, because user code may have changed the
# session.
WRITING = {
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.fieldId.write.enabled": "false",
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    "spark.sql.sources.partitionOverwriteMode": "STATIC",
}
READING = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.mergeSchema": "false",
    # A filter on the column of malformed records must not be decided while records are parsed.
    "spark.sql.csv.filterPushdown.enabled": "false",
    "spark.sql.json.filterPushdown.enabled": "false",
    "spark.sql.csv.parser.columnPruning.enabled": "false",  # else ragged rows pass unseen
}
# Over all settings of an operator: rows of a file that is broken, or is not there, are never
# just missing. Nor are they other ones, where a byte of a page has changed.
WHOLE = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "parquet.page.verify-checksum.enabled": "true",
}
# Pages have checksums, statistics of them have none: a changed byte of a statistic would hide rows
# from a filter.
UNPRUNED = {
    f"spark.hadoop.parquet.filter.{what}.enabled": "false"
    for what in ("stats", "columnindex", "dictionary")
}
# Under which users' SQL runs. No text names a file, and none is replaced by a setting or the
# environment.
CLOSED = {"spark.sql.runSQLOnFiles": "false", "spark.sql.variable.substitute": "false"}
LISTING = {
    # Labels are text, also those that look like numbers
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Listing links is no work for a Spark job
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
}
JVM_END_S = 10.0
SHUFFLE = "spark.sql.shuffle.partitions"
FEWEST, MOST = max(4, min(200, 2 * (os.cpu_count() or 2))), 2_000  # partitions of a shuffle
# Of files that are read, for each partition of a shuffle. Adaptive execution joins those that are
# too small, and cannot split what was made too large.
SHUFFLED_BYTES = 64 << 20
CONF = "HEADGATE_SPARK_CONF"
MORE = "HEADGATE_JVM"  # further options of our JVMs, which win over these
# Room for the code of all queries that are kept (`codegen.cache`), of either compiler: without
# room a JVM ends.
JVM = "-XX:+UseParallelGC -XX:ReservedCodeCacheSize=240m -Xshare:auto -Duser.timezone=UTC"
# The second compiler begins ten times later. The work of a short run ends before its code would pay;
# that of a long one gets there.
LATE = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# XML within data names files and servers to read (`<!DOCTYPE a SYSTEM "...">`), and `xpath()` would
# follow.
XML = "-Djavax.xml.accessExternalDTD="
# One compiler: less is done for short work, and heavy work takes twice as long
QUICK = "-XX:TieredStopAtLevel=1"


class BadConf(NoSpark):
    """Settings of Spark's that an operator chose, and that it does not start with."""

    condition = "spark-conf-invalid"


def start(scratch: Path, extra: Mapping[str, str] | None = None) -> SparkSession:
    """A local session that leaves no file outside `scratch`; `extra` confs win over ours. NoSpark
    where none starts."""
    provide_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # An error is raised or logged, never both
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    conf = {
        **_defaults(scratch, class_archive.options(extra or {})),
        **LISTING,
        **WRITING,
        **(extra or {}),
    }
    # Spark would ask for the address of the host's name, which may have none
    if conf["spark.master"].startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("headgate")
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
        SparkSession.Builder = _OwnBuilder  # type: ignore[misc]  # whose instances `SparkSession.builder` gives
        SparkSession.getActiveSession = staticmethod(_active)  # type: ignore[method-assign]  # for all threads one
        local_filesystem.install(spark)
        _silence_row_group_warnings(spark)
        # Read once in a process; without an active session, users' lines would be missing
        is_debugging_enabled()
    except IllegalArgumentException as e:
        raise BadConf(
            f"Spark does not start with a setting of {CONF}: {explain(e)['message']}"
        ) from e
    return spark


def _silence_row_group_warnings(spark: SparkSession) -> None:
    """Open files of Parquet share the heap. A file that is opened makes the row groups of the
    others smaller, and each change is two warnings: more than half of a driver's log."""
    assert spark._jvm is not None
    log4j = spark._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(
        "org.apache.parquet.hadoop.MemoryManager", log4j.Level.ERROR
    )


_OWN = threading.local()


_ACTIVE = SparkSession.getActiveSession


def _active() -> SparkSession | None:
    """The session of the task in this thread, where Spark remembers the session of the last
    caller."""
    own: SparkSession | None = getattr(_OWN, "session", None)
    return _ACTIVE() if own is None else own


class _OwnBuilder(SparkSession.Builder):
    """Gives users' code the session of its task, where Spark would give the driver's own to all of
    them."""

    def getOrCreate(self) -> SparkSession:  # noqa: N802  # a name of Spark's
        own: SparkSession | None = getattr(_OWN, "session", None)
        if own is None:
            return super().getOrCreate()
        own._get_j_spark_session_module(own._jvm).applyModifiableSettings(
            own._jsparkSession, self._options
        )
        return own


def conf_from_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """HEADGATE_DRIVER_MEMORY, and HEADGATE_SPARK_CONF: a JSON object of Spark confs. BadConf if it
    is none."""
    memory, text = (
        {"spark.driver.memory": environ.get("HEADGATE_DRIVER_MEMORY", "2g")},
        environ.get(CONF) or "{}",
    )
    try:
        chosen = json.loads(text)
    except ValueError:
        chosen = None
    if not isinstance(chosen, dict):
        raise BadConf(
            f'{CONF} is no JSON object such as {{"spark.sql.shuffle.partitions": "64"}}: {text[:200]}'
        )
    return memory | {str(k): str(v) for k, v in chosen.items()}


def jvm_options(scratch: Path, other_options: str) -> dict[str, str]:
    """`more` options, and those of the environment."""
    options = (
        JVM,
        LATE,
        XML,
        f"-Djava.io.tmpdir={scratch}",
        other_options,
        os.environ.get(MORE, ""),
    )
    return {"spark.driver.extraJavaOptions": " ".join(filter(None, options))}


def _defaults(scratch: Path, options: str) -> dict[str, str]:
    return {
        "spark.master": "local[*]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **jvm_options(scratch, options),
        "spark.local.dir": str(scratch),
        "spark.log.level": "WARN",
        # Where executors are processes of their own.
        "spark.executor.extraJavaOptions": "-Duser.timezone=UTC",
        # Default options stay where an operator has extra ones
        "spark.executor.defaultJavaOptions": XML,
        "spark.executor.syncLogLevel.enabled": "true",
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.sql.ui.retainedExecutions": "10",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        # Spark 4.2.0 lets a Python function over a file scan wait for ever (SPARK-58241).
        "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
        # Spark keeps 100 compiled pieces of code, as many as some ten queries have: a driver serves
        # more than that.
        "spark.sql.codegen.cache.maxEntries": "1000",
        SHUFFLE: str(FEWEST),
        # Hundreds of small files become a few tasks
        "spark.sql.files.openCostInBytes": str(128 * 1024),
        "spark.sql.files.maxPartitionBytes": str(64 * 1024 * 1024),
        **UNPRUNED,
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        # Moves files once. A job's folder is dropped whole when it fails, so half a commit is never
        # seen.
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }


def reading_session(spark: SparkSession, timezone: str = "UTC") -> SparkSession:
    """A session for reads and writes of our own: exact names, ANSI, every column of a text row
    parsed."""
    return _configured(spark, {**READING, "spark.sql.session.timeZone": timezone})


def task_session(spark: SparkSession, settings: Mapping[str, Json]) -> SparkSession:
    """A session for a user's code, with the settings of `job.spark`; nothing of another task is in
    it."""
    return _configured(spark, settings_of(settings))


def query_session(spark: SparkSession, settings: Mapping[str, Json]) -> SparkSession:
    """As `task_session`, for a user's SQL: a text that names a file reads nothing there."""
    return _configured(spark, closed(settings))


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Parsers and rules of Spark's work meanwhile under this session's settings."""
    sessions = session._get_j_spark_session_class(session._jvm)
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def settings_of(settings: Mapping[str, Json]) -> dict[str, str]:
    """`job.spark` as Spark's own settings."""
    return {
        "spark.sql.ansi.enabled": str(settings["ansi"]).lower(),
        "spark.sql.caseSensitive": str(settings["case_sensitive"]).lower(),
        "spark.sql.session.timeZone": settings["timezone"],
    }


def closed(settings: Mapping[str, Json]) -> dict[str, str]:
    """As `settings_of`, for texts of users that are SQL."""
    return {**settings_of(settings), **CLOSED}


def _configured(spark: SparkSession, conf: Mapping[str, str]) -> SparkSession:
    session = spark.newSession()
    for key, value in {**WHOLE, **conf}.items():
        session.conf.set(key, value)
    count: int = getattr(_OWN, "shuffle_partitions", FEWEST)
    if count > FEWEST and session.conf.get(SHUFFLE) == str(FEWEST):  # else an operator chose it
        session.conf.set(SHUFFLE, str(count))
    return session


def shuffle_partitions(read_bytes: int) -> int:
    """How many partitions a shuffle has in an attempt that reads files of so many bytes."""
    return max(FEWEST, min(MOST, -(-read_bytes // SHUFFLED_BYTES)))


@contextmanager
def under(session: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Put these settings on a session for a while: expressions made meanwhile use them. Then the
    session's own come back."""
    before = {name: session.conf.get(name) for name in conf}
    try:
        for name, value in conf.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, previous in before.items():
            session.conf.set(name, str(previous))


def claim_thread(spark: SparkSession, group: str, read_bytes: int = 0) -> None:
    """Put this thread's jobs into a group that can be cancelled, and forget what earlier work left
    on the thread. Its shuffles fit files of `read_bytes`."""
    context, jvm = spark.sparkContext, spark._jvm
    assert jvm is not None
    _OWN.session, _OWN.shuffle_partitions = None, shuffle_partitions(read_bytes)
    context._jsc.sc().setLocalProperties(jvm.java.util.Properties())
    spark._get_j_spark_session_class(jvm).clearActiveSession()
    context.setJobGroup(group, group)


def activate(session: SparkSession) -> None:
    """Make a session this thread's own: who builds one gets it, and only then do expressions
    remember the line that made them, at some cost."""
    _OWN.session = session
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def cancel_group(spark: SparkSession, group: str) -> None:
    """Stop the jobs of a group, also those that it would start later."""
    spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)


def is_alive(spark: SparkSession) -> bool:
    """Whether the session can run anything: its JVM may have died, or users' code stopped it."""
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except Exception:  # noqa: BLE001  # a dead JVM leads to any error
        return False


def stop(spark: SparkSession, within_s: float = JVM_END_S) -> None:
    """End Spark and its JVM, in any state, and wait until the JVM has gone. After
    `within_s` it must."""
    jvm = getattr(spark.sparkContext._gateway, "proc", None)
    with suppress(Exception):
        spark.stop()
    if jvm is None:
        return
    jvm.stdin.close()  # the JVM's sign to end
    try:
        jvm.wait(within_s)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()

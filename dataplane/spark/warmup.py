"""Making the archive of Spark's classes that later drivers start from: a session does what drivers
do, in small."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from dataplane.spark.class_archive import archive, in_order, making
from dataplane.spark.hadoop import conf_for, together
from dataplane.spark.jars import given_conf
from dataplane.spark.java import provide_java
from dataplane.spark.scratch import open_scratch
from dataplane.spark.spark_session import (
    QUICK,
    BadConf,
    conf_from_environment,
    jvm_options,
    reading_session,
    start,
    stop,
)

COMMAND = (sys.executable, "-P", "-m", "dataplane", "prepare")
END_S = 300.0  # a JVM needs some five to write the archive, on a quiet machine
ROWS = 1000
QUERY = """
    SELECT b.n % 10 AS k, concat(b.t, '-', a.t) AS t, sum(a.x) AS total, count(*) AS rows, max(b.d) AS last,
           avg(a.f) AS mean, row_number() OVER (ORDER BY sum(a.x) DESC, b.n % 10) AS place
    FROM csv a JOIN parquet b ON a.n = b.n LEFT JOIN (SELECT n, max(t) AS most FROM json GROUP BY n) c ON c.n = a.n
    WHERE a.x > 10 AND b.t LIKE 't%' AND a.d >= DATE '2020-01-01' AND (a.n IN (1, 2, 3) OR c.most IS NOT NULL)
    GROUP BY b.n % 10, concat(b.t, '-', a.t)
    """


def prepare() -> Path | None:
    """The archive for the sessions that this environment leads to; made if it is not there. None:
    there is none."""
    provide_java()
    conf = spark_conf()
    file = archive(conf)
    if file is None:
        return None
    if not file.is_file():
        with making(file) as option:
            if not file.is_file():  # which another process may have made meanwhile
                _run(conf, option)
    return file if file.is_file() else None


@contextmanager
def meanwhile(environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """On a user's own machine another process makes the archive for later drivers. It ends with
    this block."""
    is_ours = environ.get("HEADGATE_PARENT_PIPE") == "1" and not environ.get("HEADGATE_LAKE")
    try:
        file = archive(spark_conf(environ), environ) if is_ours else None
    except BadConf:  # the start of Spark reports it
        file = None
    if file is None or file.is_file():
        yield
        return
    is_over = threading.Event()
    # A thread of its own: Linux ends the process with the thread that started it (`parent_watch`)
    making_it = threading.Thread(target=_make, args=(environ, is_over), name="classes", daemon=True)
    making_it.start()
    try:
        yield
    finally:
        is_over.set()
        making_it.join()


def _make(environ: Mapping[str, str], is_over: threading.Event) -> None:
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, env=environ
    ) as process:
        if sys.platform == "linux":  # no time that the driver, or another process, would have used
            os.sched_setscheduler(process.pid, os.SCHED_IDLE, os.sched_param(0))
        is_over.wait()
        process.kill()


def spark_conf(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Spark's configuration, from environment variables."""
    ours = given_conf(environ) | conf_for(environ.get("HEADGATE_LAKE", ""), environ)
    return in_order(together(ours, conf_from_environment(environ)), environ)


def _run(conf: Mapping[str, str], option: str) -> None:
    scratch, _lock = open_scratch()
    try:
        spark = start(
            scratch,
            {**conf, **jvm_options(scratch, f"{QUICK} {option}"), "spark.driver.memory": "1g"},
        )
        try:
            for turn in ("first", "second"):
                _work(reading_session(spark), scratch / turn)
        finally:
            stop(spark, END_S)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _work(session: SparkSession, folder: Path) -> None:
    rows = session.range(ROWS).selectExpr(
        "id AS n", "concat('t', id) AS t", "CAST(id AS DECIMAL(12, 2)) AS x", "id / 7 AS f",
        "date_add(DATE '2020-01-01', CAST(id AS INT)) AS d", "timestamp_seconds(id) AS at",
    )  # fmt: skip
    for kind in ("parquet", "csv", "json"):
        rows.repartition(2).write.format(kind).save(f"{folder}/{kind}")
        read = session.read.schema(rows.schema).format(kind).load(f"{folder}/{kind}")
        read.withColumn("file", F.input_file_name()).createOrReplaceTempView(kind)
    frame = session.sql(QUERY)
    hashed = frame.select(
        "*", F.xxhash64(*frame.columns).alias("hash"), (F.col("k") % 3).alias("part")
    )
    hashed.write.partitionBy("part").parquet(f"{folder}/out")
    again = session.read.parquet(f"{folder}/out").drop("part")
    again.mapInArrow(lambda batches: batches, again.schema).collect()

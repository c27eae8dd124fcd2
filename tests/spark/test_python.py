"""Python transforms: the user's modules, nothing of one task in the next, errors at the user's own
line."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkValueError
from pyspark.sql import SparkSession

from dataplane.contract.results import OUT_OF_MEMORY
from dataplane.fragments.attempt import Cancelled
from dataplane.spark import spark_session
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_session import FEWEST, MOST, SHUFFLED_BYTES
from dataplane.transform.bundle import opened
from tests.spark.conftest import (
    Lake,
    done,
    failed,
    label,
    query,
    schema_of,
    told_schema,
    told_types,
)

PARTS = pa.schema([("n", pa.int64())])


def bundle(main: str, entrypoint: str = "transform", **modules: str) -> dict[str, Any]:
    """The job of a Python transform whose main module is `flow/main.py`."""
    more = {f"flow/{name}.py": text for name, text in modules.items()}
    job = query("", language="python", modules={"flow/main.py": main, **more}, main="flow/main.py")
    return {**job, "entrypoint": entrypoint}


def on_numbers(lake: Lake, job: dict[str, Any], *parts: list[int]) -> list[Any]:
    """Run a job on one `each` input per part, and on the first as `all` input `whole`."""
    files = [lake.table(pa.table({"n": part}, PARTS)) for part in parts]
    kinds = {
        name: {"view": name, "mode": m, "schema": schema_of(lake.spark, "n BIGINT")}
        for name, m in MODES.items()
    }
    return lake.run(
        "transform",
        {**job, "inputs": kinds, "shared": {"whole": files[0]}},
        [{"slots": {"part": f}} for f in files],
    )


MODES = {"part": "each", "whole": "all"}


def test_arguments_are_bound_by_name_and_modules_import_each_other(lake: Lake) -> None:
    main = """
from __future__ import annotations
from dataclasses import dataclass
from pyspark.sql import functions as F
from . import tools
from tools import plus
import flow.tools as same

@dataclass
class Step:
    by: int

def transform(whole, params, part, spark=None):
    assert same is tools and spark is part.sparkSession
    step = Step(params["by"])
    longer = F.udf(lambda n: plus(n, step.by) + len(tools.NAMES), "bigint")
    return part.join(whole.agg(F.max("n").alias("top"))).select(longer("n").alias("n"), "top")
"""
    tools = "NAMES = ['a', 'b']\ndef plus(a, b):\n    return a + b\n"
    job = {**bundle(main, tools=tools), "params": {"by": 10}}
    before = set(sys.modules)
    results = on_numbers(lake, job, [1, 2], [5])
    assert [lake.rows(r) for r in results] == [
        [{"n": 13, "top": 2}, {"n": 14, "top": 2}],
        [{"n": 17, "top": 2}],
    ]
    assert not [
        name
        for name in set(sys.modules) - before
        if "headgate" in name or name in ("tools", "flow")
    ]


def test_two_versions_of_one_module_side_by_side() -> None:
    main = "import tools\ndef transform():\n    return tools.VALUE, tools.again()\n"
    tools = "VALUE = {0}\ndef again():\n    import tools\n    return tools.VALUE\n"
    files = [{"main.py": main, "tools.py": tools.format(i)} for i in (1, 2)]
    with opened(files[0], "main.py") as one, opened(files[1], "main.py") as two:
        first, second = one.load(), two.load()
        assert (first.transform(), second.transform()) == ((1, 1), (2, 2))


def test_packages_and_cycles() -> None:
    files = {
        "main.py": "import pkg.sub.leaf\nfrom pkg import top\nfrom pkg.sub import leaf\nassert pkg.sub.leaf is leaf\n",
        "pkg/__init__.py": "top = 1\nfrom .sub import leaf\n",
        "pkg/sub/leaf.py": "from .. import top\nfrom ..other import name\n",
        "pkg/other.py": "import pkg\nname = 'other'\n",
    }
    with opened(files, "main.py") as bundle:
        assert bundle.load().leaf.name == "other"


def test_nothing_of_one_task_is_in_the_next(lake: Lake) -> None:
    first = """
def transform(spark, part):
    spark.conf.set("spark.sql.ansi.enabled", "false")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    spark.sparkContext.setLocalProperty("mine", "yes")
    spark.udf.register("mine", lambda n: n)
    part.createOrReplaceTempView("mine")
    part.createGlobalTempView("mine")
    part.cache().count()
    return spark.sql("SELECT 1 / 0 AS x, timestamp'2020-01-01' AS t")
"""
    (result,) = on_numbers(lake, bundle(first), [1])
    assert done(result)["files"][0]["stats"]["minValues"]["t"] == "2020-01-01T00:00:00.000Z"
    second = """
def transform(spark, part):
    found = [spark.conf.get("spark.sql.ansi.enabled"), spark.sparkContext.getLocalProperty("mine")]
    found += [t.name for t in spark.catalog.listTables()] + [t.name for t in spark.catalog.listTables("global_temp")]
    found += [f.name for f in spark.catalog.listFunctions() if f.name == "mine"]
    found += [spark._jsparkSession.sharedState().cacheManager().isEmpty()]
    return spark.createDataFrame([(str(found),)], "found STRING")
"""
    (result,) = on_numbers(lake, bundle(second), [1])
    assert lake.rows(result) == [{"found": "['true', None, True]"}]


def test_sessions_that_code_builds_are_its_own(lake: Lake) -> None:
    """Whatever the first task sets, in whatever way it comes by a session, the second sees none of
    it."""
    first = """
import os, sys
from pyspark.sql import SparkSession
def transform(part, spark):
    mine = SparkSession.builder.config("spark.sql.ansi.enabled", "false").appName("mine").getOrCreate()
    assert mine is spark and mine.conf.get("spark.sql.ansi.enabled") == "false"
    for session in (mine, SparkSession.getActiveSession(), SparkSession.active(), part.sparkSession):
        session.conf.set("spark.sql.mine", "yes")
        session.udf.register("mine", lambda n: n)
        part.createOrReplaceTempView("mine")
    mine.sql("CREATE DATABASE mine")
    mine.sql("CREATE TABLE mine.t USING parquet AS SELECT 1 AS n")
    mine.sql("CREATE TABLE t USING parquet AS SELECT 1 AS n")
    mine.sql("CREATE FUNCTION mine AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFAbs'")
    os.environ["MINE"] = "yes"
    sys.path.append("/mine")
    os.chdir("/")
    return mine.sql("SELECT 1 / 0 AS x")
"""
    folder = os.getcwd()
    (result,) = on_numbers(lake, bundle(first), [1])
    assert lake.rows(result) == [{"x": None}]
    second = """
import os, sys
from pyspark.sql import SparkSession
def transform(part, spark):
    found = [os.environ.get("MINE"), "/mine" in sys.path]
    for session in (spark, SparkSession.builder.getOrCreate(), SparkSession.getActiveSession()):
        found += [session.conf.get("spark.sql.ansi.enabled"), session.conf.get("spark.sql.mine", None)]
        found += [f.name for f in session.catalog.listFunctions() if f.name.endswith("mine")]
        found += [t.name for t in session.catalog.listTables()] + [d.name for d in session.catalog.listDatabases()]
    return spark.createDataFrame([(str(found),)], "found STRING")
"""
    (result,) = on_numbers(lake, bundle(second), [1])
    expected = [None, False, *["true", None, "default"] * 3]
    assert lake.rows(result) == [{"found": str(expected)}]
    assert os.getcwd() == folder


def test_settings_of_hadoop_are_those_of_one_task(lake: Lake) -> None:
    """Credentials among them: the next task is another user's, and the lake may lie in such a store
    itself."""
    names = "fs.s3a.secret.key", "io.file.buffer.size", "fs.s3a.path.style.access"
    conf = lake.spark.sparkContext._jsc.hadoopConfiguration()
    before = [conf.get(name) for name in names]
    assert before[1] == "65536"
    assert before[2] is not None  # as an earlier test in this process left it
    main = f"""
def transform(part, spark):
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set({names[0]!r}, "mine")
    conf.set({names[1]!r}, "1024")
    conf.unset({names[2]!r})
    return part
"""
    (result,) = on_numbers(lake, bundle(main), [1])
    assert lake.rows(result) == [{"n": 1}]
    assert [conf.get(name) for name in names] == before


def test_a_folder_that_is_gone_is_left(lake: Lake) -> None:
    """Code that works in a temporary folder, and deletes it, leaves the process nowhere."""
    main = """
import os, tempfile
def transform(part):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
    return part
"""
    folder = os.getcwd()
    (result,) = on_numbers(lake, bundle(main), [1])
    assert lake.rows(result) == [{"n": 1}]
    assert os.getcwd() == folder


@pytest.mark.parametrize(
    ("main", "condition", "line"),
    [
        (
            "def transform(part):\n    x = 1\n    return part.select('nope')\n",
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
            3,
        ),
        ("def transform(part):\n    return [][3]\n", "IndexError", 2),
        ("def transform(part):\n    return part.collect()\n", "RESULT_NOT_A_DATAFRAME", 1),
        ("\ndef transform(part):\n    return None\n", "RESULT_NOT_A_DATAFRAME", 2),
        ("\n\ndef transform(part, other):\n    return part\n", "UNKNOWN_ARGUMENT", 3),
        ("def transform(part):\n    return '\0'\n", "SyntaxError", 1),
        ("def other(part):\n    return part\n", "ENTRYPOINT_NOT_FOUND", 1),
        ("def transform(part)\n    return part\n", "SyntaxError", 1),
        ("\nimport nothing_like_it\n", "ModuleNotFoundError", 2),
        ("def transform(part, spark):\n    spark.stop()\n", "SESSION_STOPPED", 2),
        (
            "def transform(part):\n    return part.select(\n    1 / (part.n - 1))\n",
            "DIVIDE_BY_ZERO",
            3,
        ),
        (
            "def transform(part):\n    return part.selectExpr('1 / (n - 1)')\n",
            "DIVIDE_BY_ZERO",
            None,
        ),
        ("def transform(part):\n    raise FileNotFoundError('mine')\n", "FileNotFoundError", 2),
        ("import sys\ndef transform(part):\n    sys.exit('no rows today')\n", "SystemExit", 3),
        ("exit()\n", "SystemExit", 1),
    ],
)
def test_errors_are_the_users_and_at_his_line(
    lake: Lake, main: str, condition: str, line: int | None
) -> None:
    (result,) = on_numbers(lake, bundle(main), [1])
    error = failed(result)
    assert (error["kind"], error["condition"], error["line"]) == ("user", condition, line)
    assert error["file"] == ("flow/main.py" if line else None)
    assert "headgate_" not in error["message"]


def test_an_error_on_a_python_worker_leads_to_the_helpers_line(lake: Lake) -> None:
    main = "import pyspark.sql.functions as F\nimport tools\ndef transform(part):\n    return {}\n"
    main = main.format("part.select(F.udf(tools.bad, 'int')('n'))")
    (result,) = on_numbers(lake, bundle(main, tools="def bad(n):\n    return 1 // 0\n"), [1])
    error = failed(result)
    assert (error["kind"], error["file"], error["line"]) == ("user", "flow/tools.py", 2)
    assert "ZeroDivisionError" in error["message"]


def test_an_error_of_pyspark_without_a_condition_names_its_class() -> None:
    error = explain(PySparkValueError("nope"))  # as `row["nope"]` raises it
    assert (error["kind"], error["message"]) == ("user", "PySparkValueError: nope")


@pytest.mark.parametrize(
    "message",
    [
        "Reason: The executor with id 2 exited with exit code 137(SIGKILL, possible container OOM).",
        "Reason: The executor with id 2 exited with exit code 52(JVM OOM).",
    ],
)
def test_an_executor_that_ran_out_of_memory_is_nobodys_error(
    spark: SparkSession, message: str
) -> None:
    """A larger driver has larger executors."""
    jvm: Any = spark._jvm
    lost = "Job aborted due to stage failure: ExecutorLostFailure (executor 2 exited) "
    error = explain(
        Py4JJavaError("a call", jvm.org.apache.spark.SparkException(lost + message)), ErrorSource()
    )
    assert (error["kind"], error["condition"]) == ("infrastructure", OUT_OF_MEMORY)


SHUFFLES = """
def transform(spark):
    return spark.createDataFrame([(spark.conf.get("spark.sql.shuffle.partitions"),)], "n STRING")
"""


def shuffle_partitions(lake: Lake, read_bytes: int) -> int:
    claim = lake.claim("transform", bundle(SHUFFLES), [{}])
    claim["reads_bytes"] = read_bytes
    (result,) = lake.executor.run(claim)
    return int(lake.rows(result)[0]["n"])


def test_shuffles_have_the_more_partitions_the_more_is_read(lake: Lake) -> None:
    """Also after an attempt with more, in the same thread."""
    sizes = [0, 640 * SHUFFLED_BYTES, 1, 1 << 60]
    assert [shuffle_partitions(lake, size) for size in sizes] == [FEWEST, 640, FEWEST, MOST]


def test_shuffles_have_the_partitions_that_an_operator_chose(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        spark_session, "FEWEST", FEWEST - 1
    )  # as if Spark had started with one more
    assert shuffle_partitions(lake, 640 * SHUFFLED_BYTES) == FEWEST


def test_one_failing_task_leaves_the_others(lake: Lake) -> None:
    main = "def transform(part):\n    if part.first()[0] == 2:\n        raise ValueError('two')\n    return part\n"
    results = on_numbers(lake, bundle(main), [1], [2], [3])
    assert [r["state"] for r in results] == ["done", "failed", "done"]


REGISTERED = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.udf.register("twice", lambda n: 2 * n, "bigint")
def transform(part):
    return part.selectExpr("twice(n) AS n")
"""


def test_analysis_of_python(lake: Lake) -> None:
    inputs = {"part": {"view": "part", "mode": "each", "schema": schema_of(lake.spark, "n BIGINT")}}

    def analysed(main: str) -> Any:
        return lake.run("analyse", {**bundle(main), "inputs": inputs}, [{}])[0]

    typed = done(
        analysed(
            "def transform(part):\n    return part.selectExpr('n + 1.5 AS m', 'NULL AS nothing')\n"
        )
    )
    assert list(told_types(typed).values()) == ["decimal(22,1)", "string"]
    for body in (
        "part.groupBy('n').pivot('n').count()",
        "part.select(str(part.first()[0]))",
        "[][part.count()]",
    ):
        assert told_schema(done(analysed(f"def transform(part):\n    return {body}\n"))) is None
    assert failed(analysed("def transform(part):\n    return part.select('nope')\n"))["line"] == 2
    assert failed(analysed("import nothing_like_it\n"))["line"] == 1
    assert next(iter(told_types(done(analysed(REGISTERED))).values())) == "long"
    assert not lake.spark.catalog.functionExists("twice")
    assert told_schema(done(analysed("def transform(part):\n    exit()\n"))) is None
    assert failed(analysed("exit()\n"))["condition"] == "SystemExit"


def test_a_fenced_attempt_stops_and_deletes_nothing(lake: Lake) -> None:
    """The task's jobs are cancelled while one of them runs; what was there stays."""
    main = """
import signal
def transform(part, params):
    def slow(rows):
        open(params["started"], "w").close()
        signal.pause()
    return part.rdd.mapPartitions(slow).toDF("n BIGINT")
"""
    started = lake.sources / "started"
    files = lake.table(pa.table({"n": [1]}, PARTS))
    inputs = {"part": {"view": "part", "mode": "each", "schema": schema_of(lake.spark, "n BIGINT")}}
    job = {**bundle(main), "params": {"started": str(started)}, "inputs": inputs}
    claim = lake.claim("transform", job, [{"slots": {"part": files}}])
    kept = lake.root / claim["prefix"] / f"_fragment={label(7)}" / "kept"
    kept.parent.mkdir(parents=True)
    kept.touch()
    stopper = threading.Thread(target=cancel_after, args=(started, lake, claim["attempt"]))
    stopper.start()
    with pytest.raises(Cancelled):
        lake.executor.run(claim)
    stopper.join()
    assert kept.exists()
    (result,) = lake.run("transform", query("SELECT 1 AS a"), [{}])
    assert done(result)["content"][0] == 1


def cancel_after(path: Path, lake: Lake, attempt: str) -> None:
    while not path.exists():
        threading.Event().wait(0.02)
    lake.executor.cancel(attempt)

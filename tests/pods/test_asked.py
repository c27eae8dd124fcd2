"""Pods that are asked for rows: queries by Spark, and Spark sessions, whose client comes by
`kubectl port-forward`."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from controlplane.client import Headgate
from tests.e2e.workspace import until
from tests.pods.cluster import COMPONENT, DATA, Cluster

SQL = "SELECT carrier, name FROM source.airlines ORDER BY carrier"
WAITS_S = 600.0  # for a pod with a JVM, on a node with much else to do
CLIENT = """
import json, sys
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

spark = SparkSession.builder.remote(sys.argv[1]).create()
table = spark.table("`source.airlines`")
longer = udf(lambda text: text + "!", "string")
print(json.dumps([list(row) for row in table.select("carrier", longer("name")).orderBy("carrier").collect()]))
"""


@pytest.fixture
def expected(airlines: pa.Table) -> list[list[Any]]:
    return sorted([row["carrier"], row["name"]] for row in airlines.to_pylist())


@pytest.fixture
def tidy(installed: Cluster) -> Iterator[None]:
    """The pod of queries would wait for another one while other tests need its room."""
    yield
    selector = f"--selector={COMPONENT} in (query,session)"
    installed.kubectl(
        "delete", "jobs", "--namespace", DATA, selector, "--cascade=foreground", "--timeout=600s"
    )


@pytest.mark.usefixtures("tidy")
def test_spark_answers_queries_in_a_pod_as_duckdb_does(
    installed: Cluster, client: Headgate, expected: list[list[Any]]
) -> None:
    assert client.query(SQL)["rows"] == expected
    assert client.query(SQL, engine="spark", timeout_s=WAITS_S)["rows"] == expected
    assert len(installed.pods("query")) == 1
    counted = client.query(
        "SELECT count(*) AS n FROM source.airlines", engine="spark", timeout_s=WAITS_S
    )
    assert counted["rows"] == [[len(expected)]]
    assert len(installed.pods("query")) == 1


@pytest.mark.usefixtures("tidy")
def test_a_client_reads_and_computes_in_a_session_of_its_own(
    installed: Cluster, client: Headgate, expected: list[list[Any]]
) -> None:
    opened = client.open_spark_session(["source.*"], ttl_s=WAITS_S)
    assert opened["forward"] is not None
    with _forwarded(opened["forward"]):
        command = [sys.executable, "-c", CLIENT, opened["url"]]
        found = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=WAITS_S)
    assert json.loads(found.stdout) == [[carrier, f"{name}!"] for carrier, name in expected]
    assert len(installed.pods("session")) == 1
    client.end_spark_session(opened["id"])
    until(lambda: not installed.pods("session"), lambda: "its pod goes with it")


@contextmanager
def _forwarded(command: str) -> Iterator[None]:
    """While the command that was told leads to the pod."""
    with subprocess.Popen(shlex.split(command), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("Forwarding from 127.0.0.1:")
            yield
        finally:
            process.terminate()

"""Data sources of Spark by their names, and classes of users."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from dataplane.connectors.spark.spark_listing import partitions
from dataplane.contract.jobs import ListJob
from dataplane.task_failures import TaskFailure
from tests.spark.conftest import Lake, failed, read, schema_of

CODE = """\
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

def source():
    return Numbers

class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "day STRING, n INT, token STRING"

    def reader(self, schema):
        return Reader(self.options)

class Reader(DataSourceReader):
    def __init__(self, options):
        self.options = options

    def partitions(self):
        return [InputPartition(n) for n in range(2)]

    def read(self, partition):
        if self.options["day"] == "bad":
            raise ValueError("no such day")
        yield self.options["day"], partition.value, self.options["token"]
"""
DDL = "day STRING, n BIGINT, token STRING"


def job_of(**settings: Any) -> dict[str, Any]:
    code = {"main": "numbers.py", "modules": json.dumps({"numbers.py": CODE}), "source": "source"}
    given = {"format": None, "row_schema": DDL, "version": "each run", **code, **settings}
    options = {"token": "secret://days/token", "headgate.code": "0"}
    return {
        **read("spark"),
        "connector": "spark",
        "settings": given,
        "options": options,
        "location": "spark:source",
    }


def tasks(lake: Lake, job: dict[str, Any]) -> list[dict[str, Any]]:
    columns = schema_of(lake.spark, DDL)
    return [
        {"columns": columns, "objects": part["objects"]}
        for part in partitions(cast("ListJob", job))
    ]


def test_a_class_of_the_user_is_read_by_values_of_an_option(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_DAYS_TOKEN", "hunter2-4711")
    job = job_of(option="day", values=["mon", "bad"])
    bad, mon = lake.run("parse", job, tasks(lake, job))
    assert lake.rows(mon) == [{"day": "mon", "n": n, "token": "hunter2-4711"} for n in (0, 1)]
    assert "no such day" in failed(bad)["message"]
    assert "hunter2" not in json.dumps(bad)


def test_versions_are_as_the_component_declares() -> None:
    def source(version: str) -> str:
        return next(iter(partitions(cast("ListJob", job_of(version=version)))))["source"]

    assert source("each run") != source("each run")
    assert source("options") == source("options")


def test_a_name_needs_the_operator(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    named = job_of(format="rate-micro-batch", modules="{}", main="", source=None)
    with pytest.raises(TaskFailure) as caught:
        list(partitions(cast("ListJob", named)))
    assert caught.value.condition == "format-refused"
    monkeypatch.setenv("HEADGATE_SPARK_FORMATS", "mongodb, Rate-Micro-Batch")
    assert [part["key"] for part in partitions(cast("ListJob", named))] == ["all"]
    monkeypatch.delenv("HEADGATE_SPARK_FORMATS")
    [refused] = lake.run("parse", named, [{"columns": schema_of(lake.spark, DDL), "objects": []}])
    assert failed(refused)["condition"] == "format-refused"

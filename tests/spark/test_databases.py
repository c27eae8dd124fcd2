"""Slices of each database as fragments: the rows of their listing, or none."""

from __future__ import annotations

from typing import Any

import pytest

from dataplane.connectors.jdbc.jdbc_listing import partitions
from dataplane.contract.results import TaskResult
from dataplane.contract.schemas import Json, Schema
from tests.jdbc.databases import DATABASES, AnyDatabase, Servers
from tests.spark.conftest import Lake, told_schema

BASE = {"format": "jdbc", "on_bad_record": "fail"}
SUM = 700 * 701 // 2


def job(database: AnyDatabase, **more: Json) -> Json:
    return BASE | database.reading(**more)


def tasks(work: Json) -> dict[str, Json]:
    """The objects of each partition, as a listing has them."""
    return {p["key"]: {"partition": p["key"], "objects": p["objects"]} for p in partitions(work)}


def inferred(lake: Lake, work: Json, task: Json) -> Schema:
    [result] = lake.run("infer", work, [task])
    schema = told_schema(result)
    assert schema is not None
    return schema


def parsed(
    lake: Lake, work: Json, listed: dict[str, Json], schema: Schema | None = None
) -> list[TaskResult]:
    columns = schema or inferred(lake, work, next(iter(listed.values())))
    return lake.run("parse", work, [{**t, "columns": columns} for t in listed.values()])


def with_months(database: AnyDatabase) -> AnyDatabase:
    """700 rows of seven months, one of which is NULL."""
    database.do(
        "CREATE TABLE t (month int, n bigint)",
        f"INSERT INTO t SELECT nullif(i % 7, 0), i FROM {database.numbers(700)}",
    )
    return database


@pytest.fixture(params=DATABASES, ids=lambda kind: kind.dialect.scheme)
def months(request: pytest.FixtureRequest, servers: Servers) -> AnyDatabase:
    return with_months(servers.database(request.param))


def total(lake: Lake, result: TaskResult) -> tuple[int, int]:
    rows: list[dict[str, Any]] = lake.rows(result)
    return len(rows), sum(row["n"] for row in rows)


@pytest.mark.parametrize("bounds", [[], ["2", "5"]])
def test_many_slices_are_one_job_and_each_row_is_in_its_own(
    lake: Lake, months: AnyDatabase, bounds: list[str]
) -> None:
    work = job(months, by="partitioned", column="month", bounds=bounds)
    listed = tasks(work)
    assert len(listed) == (4 if bounds else 7)
    totals = [total(lake, result) for result in parsed(lake, work, listed)]
    assert (sum(n for n, _ in totals), sum(s for _, s in totals)) == (700, SUM)
    assert {n for n, _ in totals} == ({100, 200, 300} if bounds else {100})


def test_a_slice_that_changed_since_its_listing_is_void(lake: Lake, months: AnyDatabase) -> None:
    work = job(months, by="partitioned", column="month")
    listed = tasks(work)
    columns = inferred(lake, work, next(iter(listed.values())))
    months.do(
        "UPDATE t SET n = 0 WHERE n = 8",
        "DELETE FROM t WHERE month = 2",
        "INSERT INTO t VALUES (77, 1)",
    )
    results = parsed(lake, work, listed, columns)
    states = {key: result["state"] for key, result in zip(listed, results, strict=True)}
    changed = {"month=1", "month=2"}
    assert {key for key, state in states.items() if state == "void"} == changed
    assert {state for key, state in states.items() if key not in changed} == {"done"}


def test_a_growing_table_is_read_from_bound_to_bound(lake: Lake, months: AnyDatabase) -> None:
    work = job(months, by="incremental", column="n") | {"known": {"key": None, "objects": []}}
    [first] = partitions(work)
    months.do("INSERT INTO t VALUES (1, 701), (1, 702), (1, 5)")
    [second] = partitions(work | {"known": {"key": first["key"], "objects": first["objects"]}})
    listed = {p["key"]: {"partition": p["key"], "objects": p["objects"]} for p in (first, second)}
    [old, new] = parsed(lake, work, listed)
    assert (total(lake, old)[0], total(lake, new)) == (701, (2, 1403)), (
        "the late row below is in the older slice only"
    )


def test_a_server_that_is_gone_is_no_fault_of_the_user(
    lake: Lake, months: AnyDatabase, servers: Servers
) -> None:
    work = job(months)
    listed = tasks(work)
    columns = inferred(lake, work, listed[""])
    server = servers.server(type(months))
    server.stop()
    try:
        [result] = parsed(lake, work, listed, columns)
    finally:
        server.start()
    error = result["error"]
    assert (error["condition"], error["kind"]) == ("connection-refused", "infrastructure")

"""The `pack` kind: rows of many fragments in a few files, proven to be the same rows."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from dataplane.contract.identity import EMPTY, Content, label_of, pack_id
from dataplane.contract.results import TaskResult
from dataplane.contract.schemas import Schema
from tests.spark.conftest import Lake, done, failed, query, schema_of

FRAGMENTS = 8
TYPES = "k INT, x DOUBLE, s STRING, t TIMESTAMP, m MAP<STRING, DECIMAL(9,2)>, l ARRAY<STRUCT<a: BIGINT>>"
ROWS = """
    SELECT CAST((id * 7919 + {n}) % 1000 AS INT) AS k, IF(id % 3 = 0, -0.0D, id / 7D) AS x,
        IF(id % 5 = 0, NULL, string(id)) AS s, timestamp_micros(id * 1000003) AS t,
        map('é', CAST(id AS DECIMAL(9,2))) AS m, array(named_struct('a', id)) AS l
    FROM range({n} * 25, {n} * 25 + 25)
"""


def fragments(lake: Lake) -> list[TaskResult]:
    return [done(lake.run("transform", query(ROWS.format(n=n)), [{}])[0]) for n in range(FRAGMENTS)]


def packed(lake: Lake, found: list[TaskResult], schema: Schema, **job: Any) -> TaskResult:
    """By a task that asks for the pack of these fragments."""
    content = EMPTY
    for one in found:
        content = content.plus(Content(*one["content"]))
    files = [file["path"] for one in found for file in one["files"]]
    task = {"task": pack_id(schema, content).hex(), "slots": {"": files}, "into": 1, **job}
    order = task.pop("sort_by", [])
    (result,) = lake.run("pack", {"schema": schema, "sort_by": order}, [task])
    return result


def test_packs_hold_just_the_rows_of_their_members(lake: Lake) -> None:
    schema, found = schema_of(lake.spark, TYPES), fragments(lake)
    plain = done(packed(lake, found, schema))
    assert plain["schema"] == schema == found[0]["schema"]
    assert len(plain["files"]) == 1
    assert plain["content"][0] == FRAGMENTS * 25
    assert (
        Path(plain["files"][0]["path"]).parent.name
        == f"_fragment={label_of(bytes.fromhex(plain['task']))}"
    )
    clustered = done(packed(lake, found, schema, sort_by=["k", "gone"], into=4))
    assert clustered["content"] == plain["content"]
    bounds = sorted(
        (f["stats"]["minValues"]["k"], f["stats"]["maxValues"]["k"]) for f in clustered["files"]
    )
    assert len(bounds) == 4
    assert all(high <= low for (_, high), (low, _) in pairwise(bounds))


def test_a_member_that_partitions_share_counts_as_often(lake: Lake) -> None:
    schema = schema_of(lake.spark, "k INT")
    (one,) = lake.run("transform", query("SELECT CAST(id AS INT) AS k FROM range(3)"), [{}])
    assert done(packed(lake, [one] * 16, schema))["content"][0] == 48


def test_other_rows_are_no_pack(lake: Lake) -> None:
    schema = schema_of(lake.spark, "k INT")
    (one,) = lake.run("transform", query("SELECT CAST(id AS INT) AS k FROM range(3)"), [{}])
    given = lake.table(pa.table({"k": pa.array([7], pa.int32())}))
    error = failed(packed(lake, [one], schema, slots={"": given}))
    assert (error["kind"], error["condition"]) == ("infrastructure", "PACK_DIFFERS")

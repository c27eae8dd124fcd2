"""A driver goes on to transforms that read what it computed: their rows, keys and contents are
those of claims of their own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dataplane.contract.claims import follower_key
from dataplane.contract.identity import Content
from dataplane.contract.results import TaskResult
from tests.spark.conftest import Lake, done, query, read, schema_of

DDL = "v INT"


def follower(lake: Lake, name: str, source: str, sql: str, **job: Any) -> dict[str, Any]:
    """Of the dataset `source`; its query may run over many partitions at once."""
    carried = sql.replace(" FROM", f", {source}._fragment FROM", 1)
    each = {"view": source, "mode": "each", "schema": schema_of(lake.spark, DDL)}
    texts = {"batch_sql": carried, "batch_input": source, "inputs": {source: each}}
    body = query(sql, **{**texts, **job})
    prefix = f"default/flow/{name}/_frags/00/a"
    ids: dict[str, str] = {name: bytes(32).hex() for name in body["shared"]}
    return {
        "dataset": f"flow.{name}",
        "slot": source,
        "logic": name.encode().hex().ljust(64, "0"),
        "ids": ids,
        "job": body,
        "prefix": prefix,
    }


def chain(lake: Lake) -> dict[str, Any]:
    """Plus reads what was parsed, met what plus gave and another dataset. Where v is 3, it fails."""
    other = lake.table(pa.table({"v": pa.array([2, 3, 4], pa.int32())}))
    whole = {"view": "other", "mode": "all", "schema": schema_of(lake.spark, DDL)}
    sql = "SELECT v, 1 / (v - 3) AS w FROM plus JOIN other USING (v)"
    met = follower(lake, "met", "plus", sql, shared={"other": other})
    met["job"]["inputs"]["other"] = whole
    return follower(lake, "plus", "raw", "SELECT v + 1 AS v FROM raw", followers=[met])


def by_dataset(result: TaskResult) -> dict[str, Any]:
    return {one["dataset"]: one for one in done(result).get("then", ())}


def test_rows_and_keys_are_those_of_claims_of_their_own(lake: Lake) -> None:
    columns = schema_of(lake.spark, DDL)
    plus = chain(lake)
    [met] = plus["job"]["followers"]
    tasks = [
        {"columns": columns, "objects": [lake.source(f"{v}.csv", f"v\n{v}\n", ["v"])]}
        for v in (1, 2, 3)
    ]
    results = lake.run("parse", read("csv", followers=[plus]), tasks)
    then = [by_dataset(result) for result in results]
    assert [sorted(found) for found in then] == [
        ["flow.met", "flow.plus"],
        ["flow.plus"],  # met fails
        ["flow.met", "flow.plus"],
    ]
    for result, found in zip(results, then, strict=True):
        one = found["flow.plus"]
        assert one["task"] == follower_key(plus, Content(*result["content"])).hex()  # type: ignore[arg-type]
        assert all(file["path"].startswith(plus["prefix"]) for file in one["files"])
        files = [file["path"] for file in result["files"]]
        own_job = {name: value for name, value in plus["job"].items() if name != "followers"}
        [own] = lake.run("transform", own_job, [{"slots": {"raw": files}}])
        assert (one["content"], one["schema"]) == (own["content"], own["schema"])
        assert lake.rows({**result, **one}) == lake.rows(own)
    last = then[2]["flow.met"]
    assert last["task"] == follower_key(met, Content(*then[2]["flow.plus"]["content"])).hex()
    assert lake.rows({**results[2], **last}) == [{"v": 4, "w": 1.0}]


def test_what_is_as_it_was_is_not_followed(lake: Lake) -> None:
    job = query("SELECT v FROM x", batch_sql="SELECT v, _fragment FROM x", batch_input="x")
    job["inputs"] = {"x": {"view": "x", "mode": "each", "schema": schema_of(lake.spark, DDL)}}
    job["followers"] = [chain(lake)]
    slots = [{"x": lake.table(pa.table({"v": pa.array([v], pa.int32())}))} for v in (1, 3)]
    first, second = map(done, lake.run("transform", job, [{"slots": s} for s in slots]))
    assert sorted(by_dataset(second)) == ["flow.met", "flow.plus"]
    present = {"flow.dataset": first["content"]}
    further = {"flow.plus": by_dataset(second)["flow.plus"]["content"]}
    again = [{"slots": s, "present": p} for s, p in zip(slots, (present, further), strict=True)]
    first, second = lake.run("transform", job, again)
    assert (sorted(by_dataset(first)), sorted(by_dataset(second))) == ([], ["flow.plus"])

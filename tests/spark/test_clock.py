"""The clock of a query on Spark: a literal in its place has its type, and columns keep their
names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from controlplane.core.sql import AnalysedQuery, analyse, apply_edits
from dataplane.contract.schemas import Json
from tests.spark.conftest import Lake, done, failed, query, schema_of, told_schema

AS_OF = 1_763_767_799.9876  # 2025-11-21 23:29:59.9876 UTC, past midnight in Berlin
CALLS = [
    "now()",
    "current_timestamp()",
    "current_date()",
    "curdate() AS c",
    "localtimestamp()",
    "unix_timestamp()",
]
NUMBERS = pa.schema([("n", pa.int64())])


def stopped(found: AnalysedQuery, zone: str = "Europe/Berlin") -> dict[str, Json]:
    edits = found.clock_edits(AS_OF, zone)
    settings = {"ansi": True, "case_sensitive": False, "timezone": zone}
    told = {"edits": [[e.start, e.end, e.text] for e in edits], "spark": settings}
    return told | {
        "sql": apply_edits(found.text, edits),
        "named": {"sql": found.text, "batch_sql": None},
    }


def test_types_and_names_are_those_of_the_users_text(lake: Lake) -> None:
    found = analyse(f"SELECT {', '.join(CALLS)}, date_add(current_date(), 1), now() AS t")
    plain, other = query(found.text), query(**stopped(found))
    schemas = [told_schema(done(lake.run("analyse", job, [{}])[0])) for job in (plain, other)]
    assert schemas[0] == schemas[1]
    (result,) = lake.run("transform", other, [{}])
    [row] = lake.rows(result)
    values = list(row.values())
    assert [str(v) for v in values[2:7]] == [
        *("2025-11-22", "2025-11-22", "2025-11-22 00:29:59.987000", "1763767799", "2025-11-23"),
    ]
    assert values[0] == values[1] == row["t"]
    assert values[0].timestamp() == pytest.approx(1_763_767_799.987)


def test_many_tasks_in_one_job_and_an_error_at_its_place(lake: Lake) -> None:
    files = [lake.table(pa.table({"n": [n]}, NUMBERS)) for n in (1, 2)]
    inputs = {"part": {"view": "part", "mode": "each", "schema": schema_of(lake.spark, "n BIGINT")}}
    found = analyse(
        "SELECT n, unix_timestamp(), 1 / (n - 3) FROM part WHERE now() > timestamp_seconds(n)"
    )
    labels = found.label_edits("part") or ()
    batch = [
        apply_edits(found.text, [*labels, *more]) for more in (found.clock_edits(AS_OF, "UTC"), ())
    ]
    told = stopped(found, "UTC") | {
        "batch_sql": batch[0],
        "named": {"sql": found.text, "batch_sql": batch[1]},
    }
    job = query(**told, inputs=inputs, batch_input="part")
    results = lake.run("transform", job, [{"slots": {"part": f}} for f in files])
    assert [[list(row.values())[:2] for row in lake.rows(r)] for r in results] == [
        [[1, 1763767799]],
        [[2, 1763767799]],
    ]
    names = [f["name"] for f in done(results[0])["schema"]["fields"]]
    assert names == lake.spark.sql(f"WITH part AS (SELECT 1L AS n) {found.text}").columns
    (result,) = lake.run(
        "transform", job, [{"slots": {"part": lake.table(pa.table({"n": [3]}, NUMBERS))}}]
    )
    error = failed(result)
    assert (error["condition"], error["line"], error["column"]) == (
        "DIVIDE_BY_ZERO",
        1,
        found.text.index("1 / (") + 1,
    )


def test_texts_are_read_as_times_where_they_meet_dates(lake: Lake) -> None:
    """Why a query that holds one is volatile."""
    row = lake.spark.sql(
        "SELECT CAST('today' AS DATE) > DATE'2020-01-01', DATE'2020-01-01' < 'yesterday'"
    ).first()
    assert row is not None
    assert tuple(row) == (True, True)

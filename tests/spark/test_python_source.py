"""Objects that a user's own code reads: rows as declared, errors at the user's own lines."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from dataplane.connectors.python.python_listing import partitions
from dataplane.contract.jobs import ListJob
from tests.spark.conftest import Lake, failed, read, schema_of

DDL = "day DATE, n INT"
CODE = """\
from datetime import date
from pathlib import Path

def list(context):
    for file in Path(context.params["folder"]).iterdir():
        yield {"name": file.name, "version": file.read_text(), "detail": {"n": len(file.read_text())}}

def read(context, object):
    for n in range(object.detail["n"]):
        yield row(object, n)

def row(object, n):
    if object.version == "bad":
        raise ValueError("no such day")
    return {"day": date(2020, 1, 1), object.name[0]: n}
"""


def tasks(lake: Lake, job: dict[str, Any], ddl: str = DDL) -> list[dict[str, Any]]:
    columns = schema_of(lake.spark, ddl)
    return [
        {"columns": columns, "objects": found["objects"]}
        for found in partitions(cast("ListJob", job))
    ]


def job_of(folder: Path) -> dict[str, Any]:
    texts, params = json.dumps({"api.py": CODE}), json.dumps({"folder": str(folder)})
    settings = {"modules": texts, "main": "api.py", "params": params, "schema": DDL}
    return {
        **read("python"),
        "connector": "python",
        "settings": settings,
        "location": "python:api.py",
    }


def test_rows_of_many_objects_and_errors_at_the_users_lines(lake: Lake) -> None:
    for name, text in (("n1", "xx"), ("n2", ""), ("n3", "bad"), ("what", "x")):
        (lake.sources / name).write_text(text)
    job = job_of(lake.sources)
    one, none, bad, strange = lake.run("parse", job, tasks(lake, job))
    assert [row["n"] for row in lake.rows(one)] == [0, 1]
    assert lake.rows(none) == []
    error = failed(bad)
    assert (error["kind"], error["message"], error["file"], error["line"]) == (
        "user",
        "ValueError: no such day",
        "api.py",
        14,
    )
    assert "the schema has not" in failed(strange)["message"]


VALUES = """\
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

FIT = [{"n": 7.0}, {"n": Decimal("7")}, {"n": None}, {"day": datetime(2020, 1, 1)}, {"f": 0.1}, {"f": float("inf")},
    {"t": datetime(2020, 1, 1, 3)}, {"t": datetime(2020, 1, 1, 4, tzinfo=timezone(timedelta(hours=1)))}]
CUT_OFF = [
    {"n": 7.5}, {"n": Decimal("7.5")}, {"n": float("nan")}, {"day": datetime(2020, 1, 1, 3)},
    {"f": 1e300}, {"f": -1e39},
]

def list(context):
    for kind, rows in (("fit", FIT), ("cut", CUT_OFF)):
        for n, _ in enumerate(rows):
            yield {"name": f"{kind}{n}", "version": "1"}

def read(context, object):
    yield {"fit": FIT, "cut": CUT_OFF}[object.name[:3]][int(object.name[3:])]
"""


def test_what_does_not_fit_its_type_is_an_error(lake: Lake) -> None:
    schema = "day DATE, n INT, f FLOAT, t TIMESTAMP"
    settings = {
        "modules": json.dumps({"api.py": VALUES}),
        "main": "api.py",
        "params": "{}",
        "schema": schema,
    }
    job = {
        **read("python"),
        "connector": "python",
        "settings": settings,
        "location": "python:api.py",
    }
    listed = tasks(lake, job, schema)
    results = lake.run("parse", job, listed)
    errors = {
        task["objects"][0]["name"]: result.get("error")
        for task, result in zip(listed, results, strict=True)
    }
    assert len(errors) == 14
    for name, error in errors.items():
        assert (error is None) == name.startswith("fit"), (name, error)
        assert error is None or "does not fit its type" in error["message"]
    rows = [row for r in results if not r.get("error") for row in lake.rows(r) if row.get("t")]
    assert [row["t"] for row in rows] == [datetime.fromisoformat("2020-01-01T03:00:00")] * 2  # UTC


def test_an_object_that_changed_after_it_was_listed_is_void(lake: Lake) -> None:
    for name in ("n1", "n2", "n3"):
        (lake.sources / name).write_text("x")
    job = job_of(lake.sources)
    listed = tasks(lake, job)
    (lake.sources / "n2").write_text("y")
    (lake.sources / "n3").unlink()
    assert [result["state"] for result in lake.run("parse", job, listed)] == [
        "done",
        "void",
        "void",
    ]

"""A table, and the lake that it is copied from."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataplane.connectors.jdbc.jdbc_writer import writing
from dataplane.connectors.jdbc.table_layout import Layout
from dataplane.contract.claims import WriteTask
from dataplane.contract.jobs import WriteJob
from dataplane.contract.schemas import Json, Schema, Type, field_of, struct_of
from dataplane.fragments.arrow import arrow_schema
from dataplane.storage.lake import LocalLake
from dataplane.task_failures import TaskFailure
from tests.jdbc.databases import AT, TAGS, AnyDatabase

WRITE_ONE_TASK = """
import json, sys
from pathlib import Path
from dataplane.connectors.jdbc.jdbc_writer import writing
from dataplane.storage.lake import LocalLake
job, task, lake = json.loads(sys.argv[1])
with writing(job, LocalLake(Path(lake))) as write:
    print(write(task))
"""


def struct(**columns: Type) -> Schema:
    return struct_of(field_of(n, t) for n, t in columns.items())


PLAIN = struct(month="integer", name="string")
WIDER = struct(month="integer", name="string", more="date")
RETYPED = struct(month="string", name="string")
ROWS: list[dict[str, Any]] = [{"month": 1, "name": "a"}, {"month": 1, "name": None}]
TYPES = struct(
    b="boolean", i="byte", s="short", n="long", f="float", d="double",
    price="decimal(20,4)", big="decimal(38,20)", at="timestamp",
    local="timestamp_ntz", day="date", raw="binary",
    tags={"type": "array", "elementType": "string", "containsNull": True},
)  # fmt: skip
VALUES = {
    "b": True, "i": 1, "s": 2, "n": 2**60, "f": 0.5, "d": 1.5,
    "price": Decimal("12.3400"), "big": Decimal("123456789012345678.12345678901234567890"),
    "at": AT, "local": datetime.fromisoformat("2013-01-02T03:04:05"),
    "day": date(9999, 12, 31), "raw": b"\xff\x00", "tags": TAGS,
}  # fmt: skip


class World:
    def __init__(self, database: AnyDatabase, lake: Path) -> None:
        self.database, self.lake, self.count = database, lake, 0

    def job(
        self,
        schema: Schema = PLAIN,
        *,
        owner: str = "f.o 1",
        keyed: tuple[str, ...] = (),
        **more: Json,
    ) -> WriteJob:
        settings = {
            "url": self.database.url,
            "table": "copy",
            "mode": "replace",
            "key": [],
            "schema_change": "fail",
        }
        own = {
            "connector": "jdbc",
            "settings": settings | more,
            "options": {},
            "owner": owner,
            "schema": schema,
        }
        return cast("WriteJob", own | {"keyed": list(keyed)})

    def create(self, job: WriteJob) -> None:
        """The table as Headgate would create it, by another user."""
        dialect = self.database.dialect
        table = dialect.name(*dialect.names_of(job["settings"]["table"]))
        self.database.do(*Layout.of(job, dialect).create(dialect, table))

    def file(self, rows: list[dict[str, Any]], schema: Schema) -> str:
        self.count += 1
        pq.write_table(
            pa.Table.from_pylist(rows, arrow_schema(schema)), self.lake / f"{self.count}.parquet"
        )
        return f"{self.count}.parquet"

    def task(
        self, partition: str, rows: list[dict[str, Any]] | None, generation: int, schema: Schema
    ) -> WriteTask:
        work = {"remove": True} if rows is None else {"files": [self.file(rows, schema)]}
        return cast(
            "WriteTask",
            {"task": "", "epoch": 1, "partition": partition, "generation": generation} | work,
        )

    def write(
        self, job: WriteJob, partition: str, rows: list[dict[str, Any]] | None, generation: int = 1
    ) -> Json:
        with writing(job, LocalLake(self.lake)) as write:
            return write(self.task(partition, rows, generation, job["schema"]))

    def dies(
        self,
        failpoint: str,
        job: WriteJob,
        partition: str,
        rows: list[dict[str, Any]],
        generation: int,
    ) -> None:
        task = self.task(partition, rows, generation, job["schema"])
        command = [sys.executable, "-c", WRITE_ONE_TASK, json.dumps([job, task, str(self.lake)])]
        environment = {**os.environ, "HEADGATE_FAILPOINTS": failpoint}
        assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL

    def rows(self, columns: str = "month, name") -> list[tuple[Any, ...]]:
        return sorted(self.database.do(f"SELECT {columns} FROM copy"), key=repr)

    def failure(self, job: WriteJob, *arguments: Any) -> TaskFailure:
        with pytest.raises(TaskFailure) as caught:
            self.write(job, *arguments)
        return caught.value

    def condition(self, job: WriteJob, *arguments: Any) -> str | None:
        return self.failure(job, *arguments).condition

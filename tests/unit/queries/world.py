"""A dataset of a few rows, and a process that answers queries of it."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from controlplane.core.model.answers.queries import QueryAnswer
from controlplane.drivers.transport import LocalProcess
from controlplane.operations.context import Context
from controlplane.services.queries import queries
from controlplane.services.queries.adapter.query_child import QueryChild
from controlplane.services.queries.adapter.query_pool import QueryPool
from controlplane.services.queries.adapter.result_folder import ResultFolder
from controlplane.services.queries.port import PageBounds
from controlplane.services.queries.queries import Queries, QueryRequest
from controlplane.services.queries.running_queries import Cancel
from dataplane.contract.query_protocol import QueryTable, TableReference
from dataplane.contract.schemas import Schema
from tests.unit.diffs.world import Kept

USER = "ada"


class World(Kept):
    """`Kept`, and queries of what it keeps."""

    def __init__(self, folder: Path, **bounds: int) -> None:
        super().__init__(folder)
        self.pool = QueryPool(str(folder), **bounds)
        self.queries = Queries(self.pool, ResultFolder(folder / "results"))

    def ask(self, sql: str, parameters: Any = None, *, branch: str = "main", **more: Any) -> Any:
        bounds = PageBounds(more.pop("page_rows", queries.PAGE_ROWS))
        asked = QueryRequest(sql, parameters, **more)
        return queries.answer(self.ctx, self.queries, branch, asked, bounds=bounds).answer()

    def rows(self, sql: str, parameters: Any = None, **more: Any) -> list[list[Any]]:
        found: list[list[Any]] = self.ask(sql, parameters, **more)["rows"]
        return found

    def arrow(self, sql: str, **more: Any) -> pa.Table:
        stream = queries.stream(
            self.ctx,
            self.queries,
            "main",
            QueryRequest(sql, **{"limit": None, **more}),
            cancel=Cancel(),
        )
        return pa.ipc.open_stream(io.BytesIO(b"".join(stream.pieces))).read_all()


def page_of(ctx: Context, asked: Queries, result: str, after: int, rows: int) -> QueryAnswer:
    return queries.page(ctx, asked, result, after, PageBounds(rows)).answer()


@contextmanager
def world_in(folder: Path, **bounds: int) -> Iterator[World]:
    world = World(folder, **bounds)
    try:
        yield world
    finally:
        world.pool.close()
        world.store.close()


def process_of(child: QueryChild) -> subprocess.Popen[bytes]:
    assert isinstance(child.transport, LocalProcess)
    return child.transport.process


def table(path: str, schema: Schema, dataflow: str = "shop", name: str = "totals") -> QueryTable:
    reference: TableReference = {"branch": "", "dataflow": dataflow, "table": name, "at": 0}
    return {"reference": reference, "files": [path], "schema": schema}

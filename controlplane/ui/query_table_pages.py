"""The tables and columns that a query can name, beside its text: a list that opens to columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from controlplane.services.queries import query_tables
from controlplane.services.queries.query_tables import ColumnsAnswer, TablesAnswer
from controlplane.ui.names import DATASET
from controlplane.ui.page import Page, both, named
from controlplane.ui.page_request import PageRequest
from controlplane.ui.query_values import type_kind


def _tables(page_request: PageRequest) -> TablesAnswer:
    words = page_request.query("q").strip()
    return query_tables.tables(page_request.context, page_request.branch, words)


def _columns(page_request: PageRequest) -> ColumnsAnswer:
    name = named(page_request, "dataset", DATASET)
    return query_tables.columns(page_request.context, page_request.branch, name)


def _kinds(page_request: PageRequest, page: object) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"type_kind": type_kind}


def _command(page_request: PageRequest) -> str:  # noqa: ARG001
    return "headgate query 'SELECT 1'"


TABLES = Page("query_tables.html", _tables, _kinds, _command, "data")
COLUMNS = Page("query_columns.html", _columns, _kinds, _command, "data")
ROUTES: list[Route] = [
    *both("/query/tables/{name}", COLUMNS),
    *both("/query/tables", TABLES),
]

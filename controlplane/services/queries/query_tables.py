"""The tables that a query can name in a branch, and their columns: those that the caller may read.
Changes nothing."""

from __future__ import annotations

from typing import Final

from typing_extensions import TypedDict

from controlplane.core.errors import NotFound
from controlplane.core.model.states import State
from controlplane.core.rights import may
from controlplane.operations.context import Context
from controlplane.operations.inspect import time_travel
from dataplane.contract.schemas import Json

MOST: Final = 200  # tables of an answer


class ReadableTable(TypedDict):
    """The newest generation of a dataset."""

    name: str
    partitions: int
    rows: int


class TablesAnswer(TypedDict):
    """The first tables by name, of `total`."""

    items: list[ReadableTable]
    total: int


class ReadableColumn(TypedDict):
    """`type`: Spark's name, without the parts of a nested type."""

    name: str
    type: str


class ColumnsAnswer(TypedDict):
    """The columns of a dataset's newest generation."""

    dataset: str
    generation: int
    columns: list[ReadableColumn]


def tables(ctx: Context, branch: str, words: str = "") -> TablesAnswer:
    """Those that have `words` in their name, or in that of a column; without regard to case."""
    with ctx.read() as tx:
        newest = tx.states.newest(branch)
    matching = [
        _table(name, state)
        for name, state in sorted(newest.items())
        if _is_readable(ctx, branch, name) and _has_words(name, state, words.lower())
    ]
    return {"items": matching[:MOST], "total": len(matching)}


def columns(ctx: Context, branch: str, dataset: str) -> ColumnsAnswer:
    """Raises NotFound, also for a dataset that the caller may not read."""
    if not _is_readable(ctx, branch, dataset):
        raise NotFound("there is no dataset of this name")
    with ctx.read() as tx:
        state = time_travel.state_of(tx, branch, dataset)
    fields = state.schema["fields"]
    named = [ReadableColumn(name=field["name"], type=_type_name(field["type"])) for field in fields]
    return {"dataset": dataset, "generation": state.generation, "columns": named}


def _is_readable(ctx: Context, branch: str, dataset: str) -> bool:
    return may(ctx.principal, "data", dataset=dataset, branch=branch)


def _table(name: str, state: State) -> ReadableTable:
    return {"name": name, "partitions": state.partitions, "rows": state.rows}


def _has_words(name: str, state: State, words: str) -> bool:
    names = (name, *(field["name"] for field in state.schema["fields"]))
    return any(words in text.lower() for text in names)


def _type_name(kind: Json) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])

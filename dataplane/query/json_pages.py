"""A page of a stored result: rows as pieces of JSON, within bounds of rows and of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from dataplane.contract.query_protocol import (
    PAGE_BYTES,
    CutCell,
    PageFound,
    PageQuestion,
    QueryColumn,
)
from dataplane.contract.schemas import Json
from dataplane.fragments.cutting import beginning, encoded, fitted, size_bytes
from dataplane.query.query_results import StoredResult, stored
from dataplane.query.statement import StatementRefused

PIECE_BYTES = 1 << 18
COLUMNS_BYTES = 1 << 20
KEY_CHARACTERS = 100
LARGEST_COLUMNS = 3
TOO_WIDE = "the result has {count:,} columns, whose names and types are too long for a page: select fewer of them"
TOO_LARGE = (
    "row {row:,} of the result ({key}) takes {size:,} bytes, more than the {most:,} of a page; most of them are in"
    " {columns}: select fewer columns, shorten them (left({name}, 1000)), or read the result as Arrow;"
    " after={row} goes on behind the row"
)


class Out(Protocol):
    def write(self, data: bytes | bytearray) -> int: ...


def write(question: PageQuestion, out: Out) -> PageFound:
    """Rows to `out` as one JSON array. Raises QueryRefused for a row that no page has room for and
    for an order that there is not, and OSError where the result is gone."""
    with stored(question["path"]) as result:
        left = question["page_bytes"] - _columns_bytes(result.columns)
        pieces, count, cut = _Pieces(out), 0, list[CutCell]()
        for values in _rows(result, question):
            row, number = fitted(values, question["cell_bytes"]), question["offset"] + count
            if count and len(row.text) > left:
                break
            if len(row.text) > PAGE_BYTES:
                raise _too_large(values, result.columns, number, len(row.text))
            pieces.add(row.text)
            left -= len(row.text) + 1
            count += 1
            cut += [{"row": number, "column": place, "size_bytes": size} for place, size in row.cut]
        pieces.end()
        return {"columns": result.columns, "rows": count, "cut": cut}


def _rows(stream: StoredResult, question: PageQuestion) -> Iterator[list[Json]]:
    order, offset, limit = question["order"], question["offset"], question["limit"]
    if order is None:
        yield from stream.rows(offset, limit)
        return
    try:
        yield from stream.sorted_rows(order, offset, limit)
    except ValueError as e:
        raise StatementRefused({"kind": "refused", "message": str(e), "at": None}) from e


def _columns_bytes(columns: list[QueryColumn]) -> int:
    size = len(encoded(columns))
    if size > COLUMNS_BYTES:
        raise _refused(TOO_WIDE.format(count=len(columns)))
    return size


class _Pieces:
    """Rows between brackets, some of them in each piece."""

    def __init__(self, out: Out) -> None:
        self._out, self._piece, self._before = out, bytearray(b"["), b""

    def add(self, row: bytes) -> None:
        self._piece += self._before + row
        self._before = b","
        if len(self._piece) >= PIECE_BYTES:
            self._out.write(self._piece)
            self._piece = bytearray()

    def end(self) -> None:
        self._out.write(self._piece + b"]")


def _too_large(
    values: list[Json], columns: Sequence[QueryColumn], row: int, size: int
) -> StatementRefused:
    """`row`: its number from 0."""
    sizes = sorted(zip(map(size_bytes, values), columns, strict=True), key=lambda of: -of[0])
    shown = [
        f"{column['name'][:KEY_CHARACTERS]} ({size:,} bytes)"
        for size, column in sizes[:LARGEST_COLUMNS]
    ]
    first, name = columns[0]["name"][:KEY_CHARACTERS], sizes[0][1]["name"][:KEY_CHARACTERS]
    key = f"{first}: {beginning(values[0], KEY_CHARACTERS)}"
    words = ", ".join(shown)
    return _refused(
        TOO_LARGE.format(row=row + 1, key=key, size=size, most=PAGE_BYTES, columns=words, name=name)
    )


def _refused(message: str) -> StatementRefused:
    return StatementRefused({"kind": "limit", "message": message, "at": None})

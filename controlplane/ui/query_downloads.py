"""A result of a query as a file, in a form that other programs read: rows as they are shown, or with their types.

Does not belong here: which rows (`operations.inspect.queries`), and writing Arrow and Parquet (the data plane).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeAlias

from controlplane.core.model.answers.queries import QueryAnswer
from controlplane.core.model.json_values import JsonValue
from controlplane.core.records.formats import MEDIA_TYPES, Format
from controlplane.operations.context import Context
from controlplane.operations.inspect import queries
from controlplane.operations.inspect.queries import Queries


def _csv(pages: Iterable[QueryAnswer]) -> Iterator[bytes]:
    """RFC 4180, as `records.csv`: null is empty, text is in quotation marks, nested values are JSON."""
    for number, page in enumerate(pages):
        lines = [_line(row) for row in page["rows"]]
        if number == 0:
            lines.insert(0, _line([column["name"] for column in page["columns"]]))
        yield "".join(lines).encode()


def _line(values: Sequence[JsonValue]) -> str:
    return ",".join(map(_cell, values)) + "\n"


def _cell(value: JsonValue) -> str:
    match value:
        case None:
            return ""
        case bool() | int() | float():
            return json.dumps(value)
        case str():
            return _quoted(value)
        case _:
            return _quoted(json.dumps(value, ensure_ascii=False))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _json(pages: Iterable[QueryAnswer]) -> Iterator[bytes]:
    """As `headgate query --output json`: columns may have equal names, so rows are lists."""
    between = ""
    for number, page in enumerate(pages):
        if number == 0:
            head = {"columns": page["columns"], "generations": page["generations"]}
            yield (json.dumps(head, ensure_ascii=False)[:-1] + ', "rows": [\n').encode()
        for row in page["rows"]:
            yield (between + json.dumps(row, ensure_ascii=False)).encode()
            between = ",\n"
    yield b"\n]}\n"


def _of_pages(
    written: Callable[[Iterable[QueryAnswer]], Iterator[bytes]], ctx: Context, all_queries: Queries, result: str
) -> Iterator[bytes]:
    pages = queries.whole(ctx, all_queries, result)
    return written(chain([next(pages)], pages))


Pieces: TypeAlias = Callable[[Context, Queries, str], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Kind:
    """`pieces`: of the result of this id. Raises NotFound at once. `ending`: of the file's name."""

    format: Format
    pieces: Pieces
    ending: str

    @property
    def media_type(self) -> str:
        return MEDIA_TYPES[self.format]


KINDS: Mapping[str, Kind] = {
    "csv": Kind("csv", partial(_of_pages, _csv), "csv"),
    "json": Kind("json", partial(_of_pages, _json), "json"),
    "arrow": Kind("arrow", partial(queries.file, form="arrow"), "arrows"),
    "parquet": Kind("parquet", partial(queries.file, form="parquet"), "parquet"),
}

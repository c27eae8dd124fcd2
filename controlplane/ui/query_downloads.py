"""A result of a query as a file: rows as they are shown, in a form that other programs read.

Does not belong here: which rows (`operations.inspect.queries`). All rows as Arrow are the API's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from controlplane.core.model.answers.queries import QueryAnswer
from controlplane.core.model.json_values import JsonValue


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


@dataclass(frozen=True, slots=True)
class Kind:
    media_type: str
    written: Callable[[Iterable[QueryAnswer]], Iterator[bytes]]


KINDS: Mapping[str, Kind] = {
    "csv": Kind("text/csv; charset=utf-8", _csv),
    "json": Kind("application/json", _json),
}

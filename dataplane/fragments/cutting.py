"""Rows as JSON text within a bound of bytes: long values are cut, and who cuts them knows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dataplane.contract.schemas import Json


@dataclass(frozen=True, slots=True)
class FittedRow:
    """A row as JSON. `cut`: the places of values that are cut, and how many bytes they have."""

    text: bytes
    cut: Sequence[tuple[int, int]] = ()


def fitted(row: list[Json], cell_bytes: int) -> FittedRow:
    """The row with every value beyond `cell_bytes` cut to its beginning. A value that is no text is
    then the beginning of its JSON."""
    text = encoded(row)
    if len(text) <= cell_bytes:
        return FittedRow(text)
    sizes = enumerate(map(size_bytes, row))
    cut = [(place, size) for place, size in sizes if size > cell_bytes]
    shown = list(row)
    for place, _ in cut:
        shown[place] = beginning(row[place], cell_bytes)
    return FittedRow(encoded(shown), cut) if cut else FittedRow(text)


def shown(value: Json, most_bytes: int) -> Json:
    """The value, or its beginning and `…`."""
    return f"{beginning(value, most_bytes)}…" if size_bytes(value) > most_bytes else value


def size_bytes(value: Json) -> int:
    return len(value.encode(errors="replace") if isinstance(value, str) else encoded(value))


def beginning(value: Json, most_bytes: int) -> str:
    text = value if isinstance(value, str) else encoded(value).decode()
    return text[:most_bytes].encode(errors="replace")[:most_bytes].decode(errors="ignore")


def encoded(value: Json | Iterable[Json]) -> bytes:
    """A value as JSON; a value without a JSON form becomes text."""
    return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":")).encode(
        errors="replace"
    )

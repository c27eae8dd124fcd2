"""Formats whose files are rewritten as CSV before Spark reads them: sheets of Excel, lines of fixed
width, rows of XML. Their own options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from dataplane.contract.schemas import Json

MOST_COLUMNS = 16_384  # of a sheet, as Excel has it, and of a line of fixed width
MOST_WIDTH = 1_000_000  # characters of a line of fixed width
_WIDTHS = re.compile(r"\s*([^:,\s][^:,]*?)\s*:\s*([0-9]{1,7})\s*-\s*([0-9]{1,7})\s*")
_CELLS = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6}):([A-Z]{1,3})([1-9][0-9]{0,6})")
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class CellRange:
    """Cells of a sheet: rows and columns from 1, with the last ones."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int


@dataclass(frozen=True, slots=True)
class ExcelOptions:
    """`sheet`: its name; the first one of the file where it is empty."""

    sheet: str
    cells: CellRange | None
    header: bool


@dataclass(frozen=True, slots=True)
class FixedColumn:
    """A column of lines: characters `start` to `end` (not included), from 0."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FixedOptions:
    columns: tuple[FixedColumn, ...]
    encoding: str


@dataclass(frozen=True, slots=True)
class XmlOptions:
    """`row_tag`: the name of the element that is a row."""

    row_tag: str


StagedOptions: TypeAlias = ExcelOptions | FixedOptions | XmlOptions
_NAMES = {
    "xlsx": ("sheet", "range", "header"),
    "fixed": ("columns", "encoding"),
    "xml": ("rowTag",),
}
STAGED = tuple(_NAMES)


def staged_options(format: str, options: Mapping[str, Json]) -> StagedOptions:
    """The options of a format of STAGED. ValueError for an option that the format does not have, or
    whose text is none of it."""
    for name in options:
        if name not in _NAMES[format]:
            raise ValueError(f"{format} has no option {name!r}: {', '.join(_NAMES[format])}")
    texts = {name: str(option) for name, option in options.items() if option is not None}
    if format == "xlsx":
        cells = _cells(texts["range"]) if texts.get("range") else None
        return ExcelOptions(texts.get("sheet", ""), cells, _flag(texts.get("header", "false")))
    if format == "fixed":
        return FixedOptions(_columns(texts.get("columns", "")), texts.get("encoding", "utf-8"))
    if not texts.get("rowTag"):
        raise ValueError("xml needs the option rowTag: the name of the element that is a row")
    return XmlOptions(texts["rowTag"])


def _flag(text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise ValueError(f"header is true or false, not {text!r}")
    return _TRUTH[text.lower()]


def _cells(text: str) -> CellRange:
    corners = _CELLS.fullmatch(text)
    if corners is None:
        raise ValueError(f"{text!r} is no range of cells such as B2:F100")
    first_column, first_row, last_column, last_row = corners.groups()
    cells = CellRange(int(first_row), int(last_row), _number(first_column), _number(last_column))
    if cells.first_row > cells.last_row or cells.first_column > cells.last_column:
        raise ValueError(f"the range {text!r} ends before it begins")
    return cells


def _number(letters: str) -> int:
    """A column's number, from 1."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def _columns(text: str) -> tuple[FixedColumn, ...]:
    columns: list[FixedColumn] = []
    for part in text.split(","):
        parts = _WIDTHS.fullmatch(part)
        if parts is None:
            raise ValueError(f"{part!r} is no column such as id:1-5, of characters 1 to 5")
        column = FixedColumn(parts[1], int(parts[2]) - 1, int(parts[3]))
        if not 0 <= column.start < column.end <= MOST_WIDTH:
            raise ValueError(f"{part.strip()!r} has to lie within characters 1 to {MOST_WIDTH}")
        columns.append(column)
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"there are more than {MOST_COLUMNS} columns")
    if len({column.name for column in columns}) < len(columns):
        raise ValueError("two columns have one name")
    return tuple(columns)

"""Rows of a sheet of Excel as CSV. Runs in a process with bounds: a sheet becomes a dense table,
not by the size that its file names."""

from __future__ import annotations

import csv
import math
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path

from python_calamine import CalamineError, CalamineSheet, CalamineWorkbook

from dataplane.connectors.files.bad_rows import check_names
from dataplane.contract.schemas import Json
from dataplane.contract.staged_formats import CellRange, ExcelOptions

WHOLE = 2**53  # up to which a double holds every whole number
MOST_MEMBERS = 10_000  # of the file, which is an archive
UNPACKED_BYTES = 1 << 30


def write_sheet_rows(source: Path, target: Path, options: ExcelOptions) -> int:
    """The number of columns. ValueError for a file without such a sheet."""
    check_workbook(source)
    columns = 0
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
        try:
            for number, row in enumerate(sheet_rows(source, options)):
                if number == 0 and options.header:
                    check_names(row)
                columns = max(columns, len(row))
                writer.writerow(row)
        except CalamineError as e:
            raise ValueError(str(e)) from e
    return columns


def check_workbook(path: Path) -> None:
    """ValueError for a file that is no workbook of Excel, or says itself that it is too large."""
    with path.open("rb") as file:
        if not file.read(4).startswith(b"PK"):
            raise ValueError(
                "it is no .xlsx file (older .xls files and encrypted ones are not read)"
            )
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise ValueError(f"it has more than {MOST_MEMBERS} parts")
    if sum(member.file_size for member in members) > UNPACKED_BYTES:
        raise ValueError(f"it takes more than {UNPACKED_BYTES >> 20} MiB unpacked")


def sheet_rows(source: Path, options: ExcelOptions) -> Iterator[list[str]]:
    """The rows of a sheet as texts, from column A on, or those of a range. Empty rows are left
    out. ValueError for a sheet that is missing."""
    sheet = _sheet(source, options.sheet)
    _, left = sheet.start or (0, 0)  # calamine gives empty rows before the first cell, no columns
    for number, cells in enumerate(sheet.iter_rows(), 1):
        row = [*[""] * left, *map(cell_text, cells)]
        if options.cells is not None:
            row = _within(row, number, options.cells)
        if any(row):
            yield row


def _sheet(source: Path, name: str) -> CalamineSheet:
    with source.open("rb") as file:
        workbook = CalamineWorkbook.from_filelike(file)
        names = workbook.sheet_names
        name = name or (names[0] if names else "")
        if name not in names:
            raise ValueError(f"it has no sheet {name!r}, but {', '.join(map(repr, names[:20]))}")
        return workbook.get_sheet_by_name(name)


def _within(row: list[str], number: int, cells: CellRange) -> list[str]:
    """The part of a row that lies in a range, as wide as the range; empty outside of its rows."""
    if not cells.first_row <= number <= cells.last_row:
        return []
    own = row[cells.first_column - 1 : cells.last_column]
    width = cells.last_column - cells.first_column + 1
    return [*own, *[""] * (width - len(own))]


def cell_text(cell: Json) -> str:
    """A cell as a text of CSV."""
    match cell:
        case bool():
            return "true" if cell else "false"
        case float() if math.isfinite(cell) and cell == int(cell) and abs(cell) <= WHOLE:
            return str(int(cell))
        case datetime() | date() | time():
            return cell.isoformat()
        case timedelta():
            return _duration(cell)
        case _:
            return str(cell)


def _duration(length: timedelta) -> str:
    """Hours, minutes and seconds, with more than a day in the hours."""
    sign = "-" if length < timedelta() else ""
    minutes, rest = divmod(abs(length), timedelta(minutes=1))
    hours, minutes = divmod(minutes, 60)
    fraction = f".{rest.microseconds:06}".rstrip("0") if rest.microseconds else ""
    return f"{sign}{hours}:{minutes:02}:{rest.seconds:02}{fraction}"

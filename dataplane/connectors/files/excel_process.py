"""A process of its own that writes a sheet of Excel as CSV. A file that takes too much memory, time
or disk ends this process alone.

Run as `python -m dataplane.connectors.files.excel_process SOURCE TARGET OPTIONS`, options as JSON.
With exit code 2, the last line of standard error is the fault of the file.
"""

from __future__ import annotations

import csv
import json
import math
import resource
import sys
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

from python_calamine import CalamineError, CalamineWorkbook

from dataplane.connectors.files.excel_bounds import CPU_S, DISK_BYTES, MEMORY_BYTES
from dataplane.contract.schemas import Json
from dataplane.contract.staged_formats import ExcelOptions, staged_options

WHOLE = 2**53  # up to which a double holds every whole number


def main(source: str, target: str, options_text: str) -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_BYTES, DISK_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    options = staged_options("xlsx", json.loads(options_text))
    assert isinstance(options, ExcelOptions)
    try:
        rows = sheet_rows(source, options)
        with open(target, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    except (CalamineError, ValueError) as e:
        sys.stderr.write(f"{e}\n")
        return 2
    return 0


def sheet_rows(source: str, options: ExcelOptions) -> Iterator[list[str]]:
    """The rows of a sheet as texts. Empty rows are left out. ValueError for a sheet that is
    missing."""
    with open(source, "rb") as file:
        workbook = CalamineWorkbook.from_filelike(file)
        names = workbook.sheet_names
        name = options.sheet or (names[0] if names else "")
        if name not in names:
            raise ValueError(f"it has no sheet {name!r}, but {', '.join(map(repr, names[:20]))}")
        sheet = workbook.get_sheet_by_name(name)
    row_at, column_at = sheet.start or (0, 0)
    cells = options.cells
    for number, sheet_row in enumerate(sheet.iter_rows(), row_at + 1):
        row = [cell_text(cell) for cell in sheet_row]
        if cells is not None:
            if not cells.first_row <= number <= cells.last_row:
                continue
            row = _within([*[""] * column_at, *row], cells.first_column - 1, cells.last_column)
        if any(row):
            yield row


def _within(row: list[str], start: int, end: int) -> list[str]:
    own = row[start:end]
    return [*own, *[""] * (end - start - len(own))]


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
    minutes, seconds = divmod(length.total_seconds(), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02}:{seconds:02g}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))

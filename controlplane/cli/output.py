"""How answers are shown: JSON and YAML as they are; tables and Markdown from a view. Data goes to
standard output."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from controlplane.cli.session import Output
from dataplane.contract.keys import plain_key

STYLES = {
    "up_to_date": "green",
    "paused": "cyan",
    "building": "yellow",
    "stale": "yellow",
    "waiting": "yellow",
    "held": "cyan",
    "failed": "bold red",
    "blocked": "red",
}
EXCERPT, EXCERPT_BEFORE = 100, 80  # characters of a line that are shown; before its place
EXCERPT_BYTES = 4_000_000  # of a file; a longer one has no excerpts behind them


@dataclass(frozen=True, slots=True)
class TextTable:
    """Rows of text under headings. Numbers are aligned to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Lines:
    """Text as it is."""

    lines: tuple[str, ...]


View = Sequence[TextTable | Lines]


def show(value: Any, view: View, output: Output, out: TextIO | None = None) -> None:
    """Write an answer in the chosen form."""
    out = out or sys.stdout
    match output:
        case "json":
            out.write(json.dumps(value, indent=2, ensure_ascii=not is_utf8(out)) + "\n")
        case "yaml":
            import yaml

            yaml.safe_dump(value, out, sort_keys=False, allow_unicode=is_utf8(out), width=1000)
        case "md":
            out.write("\n".join(_markdown(part) for part in view))
        case "table":
            _tables(view, out)


def printable(value: object) -> str:
    """Text of unknown origin for a terminal: without control characters, in one line."""
    text = "" if value is None else str(value)
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def partition_name(key: str) -> str:
    """A partition in tables and sentences; machine output and addresses have the key itself."""
    return plain_key(key) or "(whole)"


def is_fancy(out: TextIO) -> bool:
    """Whether colours and moving things may be written here."""
    return out.isatty() and os.environ.get("TERM") != "dumb"


def is_utf8(out: TextIO) -> bool:
    """Whether all characters may be written here."""
    return (getattr(out, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _tables(view: View, out: TextIO) -> None:
    for index, part in enumerate(view):
        if index:
            out.write("\n")
        if is_fancy(out):
            _rich(part, out)
        else:
            out.write(_plain(part))


def _rich(part: TextTable | Lines, out: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    console = Console(file=out, highlight=False)
    if isinstance(part, Lines):
        for line in part.lines:
            console.print(Text(printable(line)))
        return
    title = Text(printable(part.title)) if part.title else None
    grid = Grid(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for index, column in enumerate(part.columns):
        right = any(_is_number(row[index]) for row in part.rows)
        grid.add_column(
            Text(printable(column)),
            justify="right" if right else "left",
            header_style="dim",
            overflow="fold",
        )
    for row in part.rows:
        grid.add_row(*(Text(_cell(v), style=STYLES.get(str(v), "")) for v in row))
    console.print(grid)


def _plain(part: TextTable | Lines) -> str:
    """Columns padded with spaces, for pipes and files."""
    if isinstance(part, Lines):
        return "".join(printable(line) + "\n" for line in part.lines)
    cells = [tuple(map(printable, part.columns)), *(tuple(map(_cell, row)) for row in part.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(part.columns))]
    right = [any(_is_number(row[i]) for row in part.rows) for i in range(len(part.columns))]
    title = [printable(part.title)] if part.title else []
    return "".join(
        line.rstrip() + "\n" for line in [*title, *(_padded(row, widths, right) for row in cells)]
    )


def _padded(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    return "  ".join(
        c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)
    )


def _markdown(part: TextTable | Lines) -> str:
    if isinstance(part, Lines):
        return "".join(printable(line) + "\n" for line in part.lines)
    head = f"**{printable(part.title)}**\n\n" if part.title else ""
    cells = [
        tuple(text.replace("|", "\\|") for text in map(_cell, row))
        for row in (part.columns, *part.rows)
    ]
    rows = [cells[0], ("---",) * len(part.columns), *cells[1:]]
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _cell(value: object) -> str:
    """Numbers without separators: one in a table may be a year or an id."""
    return printable(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def problem_lines(errors: Iterable[Mapping[str, Any]]) -> list[str]:
    """Problems as text: `FILE:LINE:COL: code: message (hint)`; where there is no file, our name
    stands there."""
    return [_problem_line(e) for e in errors]


def problem_excerpts(errors: Iterable[Mapping[str, Any]]) -> list[str]:
    """The same, each followed by the line of its file with a caret below the place, where this
    machine has the file. Lines that may hold a secret are left out."""
    lines, texts = [], {}
    for error in errors:
        file = error.get("file") or ""
        if file not in texts:
            texts[file] = _lines_of(file)
        lines += [_problem_line(error), *_excerpt(error, texts[file])]
    return lines


def _excerpt(error: Mapping[str, Any], lines: Sequence[str]) -> list[str]:
    """Two lines of text, or none."""
    # Only a command that has problems to show needs it
    from controlplane.core.blueprint import credentials

    number, column = error.get("line") or 0, error.get("column") or 1
    if not 0 < number <= len(lines) or credentials.may_stand_in(lines[number - 1]):
        return []
    source = lines[number - 1].replace("\t", " ")
    cut = max(0, column - EXCERPT_BEFORE)
    shown = printable(source[cut : cut + EXCERPT])
    caret = len(printable(source[cut : column - 1]))
    return [f"  {number:>4} | {shown}", f"  {'':>4} | {' ' * caret}^"]


def _lines_of(file: str) -> list[str]:
    """Empty for another file than a text on a disk: the command reads a pipe, once."""
    path = Path(file)
    try:
        if not path.is_file():
            return []
        with path.open("rb") as stream:
            return stream.read(EXCERPT_BYTES).decode("utf-8-sig").splitlines()
    except (OSError, ValueError):
        return []


def _problem_line(error: Mapping[str, Any]) -> str:
    place = (
        f"{error['file']}:{error['line']}:{error['column']}: "
        if error.get("file")
        else "headgate: "
    )
    hint = f" ({error['hint']})" if error.get("hint") else ""
    return printable(f"{place}{error.get('code', 'error')}: {error.get('message', '')}{hint}")

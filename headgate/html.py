"""Answers as HTML for notebooks: the tables and lines that the command line shows, and rows.

All text is escaped, and there is no script. Text has the colour of the notebook, and other colours
are seen on white and on black.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from html import escape
from typing import TypeAlias

from controlplane.cli.output import Lines, TextTable, View, printable

Cell: TypeAlias = Callable[[str, object], str]  # HTML of a column's name and a value
MOST_CHARACTERS = 200  # of a cell
MOST_CELLS = 2_000  # of a table: a notebook keeps what it shows
STYLE = (
    "<style>"
    ".headgate table{border-collapse:collapse;margin:.3em 0;font-size:inherit}"
    ".headgate th,.headgate td{padding:.25em .7em;text-align:left;border:0;"
    "border-bottom:1px solid rgb(128 128 128/.35);white-space:pre;vertical-align:top}"
    ".headgate th{font-weight:600;opacity:.75}"
    ".headgate th.n,.headgate td.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".headgate i{opacity:.7}.headgate pre{margin:.3em 0;background:none}"
    ".headgate a{color:inherit;text-decoration:underline;text-underline-offset:.15em}"
    ".headgate svg a{text-decoration:none}.headgate summary{cursor:pointer}"
    ".headgate .error{border-left:3px solid #e04f4f;padding-left:.7em}"
    ".headgate .error b::before{content:'✕ ';color:#e04f4f}"
    ".headgate ol.why{margin:.3em 0;padding-left:1.6em}.headgate ol.why p{margin:0 0 .4em}"
    ".headgate .chart{display:block;width:100%;max-width:900px}"
    ".headgate .chart text{fill:currentColor;font-size:12px}"
    ".headgate .chart .grid{stroke:rgb(128 128 128/.35)}"
    ".headgate .chart rect,.headgate .chart circle{fill:#3b82f6}"
    ".headgate .chart .drawn{fill:none;stroke:#3b82f6;stroke-width:2}"
    ".headgate .chart.k-scatter .drawn{stroke-width:5;stroke-linecap:round}"
    "</style>"
)


def of_view(view: View, title: str = "", picture: str = "", cell: Cell | None = None) -> str:
    """The tables that the command line would show, below a picture that is HTML already. `cell`:
    how cells of answers are shown; None shows values as they are."""
    head = f"<b>{text(title)}</b>" if title else ""
    return notebook_html([head, picture, *view_parts(view, cell)])


def view_parts(view: View, cell: Cell | None = None) -> list[str]:
    """Each table and each text as HTML. A note says what relative times are relative to: a notebook
    keeps them."""
    parts = [_part(part, cell) for part in view]
    # All text is escaped, so the tag is our own
    if any("<time " in part for part in parts):
        parts.append(f"<i>Times are relative to {datetime.now(UTC):%Y-%m-%d %H:%MZ}.</i>")
    return parts


def error(lines: Iterable[str]) -> str:
    """An error in place of a value, marked as one. The first line is bold."""
    first, *others = lines
    rest = "".join(f"<br>{text(line)}" for line in others)
    return f'<pre class="error"><b>{text(first)}</b>{rest}</pre>'


def error_html(refused: Exception) -> str:
    """An error as one value of a notebook."""
    return notebook_html([error(str(refused).splitlines())])


def folded(summary: str, content: str) -> str:
    """Content that a click unfolds."""
    return f"<details><summary>{text(summary)}</summary>{content}</details>"


def notebook_html(parts: Iterable[str]) -> str:
    """Parts of HTML as one value of a notebook."""
    return f'<div class="headgate">{STYLE}{"".join(parts)}</div>'


def text(value: object) -> str:
    """Any text: escaped, without control characters, and not too long."""
    shown = printable(value)
    return escape(shown if len(shown) <= MOST_CHARACTERS else shown[: MOST_CHARACTERS - 1] + "…")


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    title: str = "",
    cell: Cell | None = None,
) -> str:
    """Columns of numbers stand at the right, and NULL is not the text `null`."""
    shown = rows[: max(MOST_CELLS // max(len(columns), 1), 1)]
    right = [any(_is_number(row[i]) for row in shown) for i in range(len(columns))]
    caption = f"<b>{text(title)}</b>" if title else ""
    head = "".join(
        f"<th{_side(is_right)}>{text(name)}</th>"
        for name, is_right in zip(columns, right, strict=True)
    )
    body = "".join(_row(columns, row, right, cell or _plain_cell) for row in shown)
    left_out = len(rows) - len(shown)
    omission = f"<i>{left_out:,} more rows are not shown</i>" if left_out else ""
    return f"{caption}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{omission}"


def _part(part: TextTable | Lines, cell: Cell | None) -> str:
    if isinstance(part, TextTable):
        return table(part.columns, part.rows, part.title, cell)
    return f"<pre>{'<br>'.join(escape(printable(line)) for line in part.lines)}</pre>"


def _row(columns: Sequence[str], row: Sequence[object], right: Sequence[bool], cell: Cell) -> str:
    cells = "".join(
        f"<td{_side(is_right)}>{_null_or(cell, column, content)}</td>"
        for column, content, is_right in zip(columns, row, right, strict=True)
    )
    return f"<tr>{cells}</tr>"


def _side(is_right: bool) -> str:
    return ' class="n"' if is_right else ""


def _null_or(cell: Cell, column: str, content: object) -> str:
    return "<i>null</i>" if content is None else cell(column, content)


def _plain_cell(column: str, content: object) -> str:  # noqa: ARG001  # as all cells
    return text(content)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)

"""Answers as HTML for notebooks: the tables and lines that the command line shows, and rows.

All text is escaped, and there is no script. Colours are those of the notebook, so it follows a dark
theme.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from html import escape

from controlplane.cli.output import Lines, TextTable, View, printable

MOST_CHARACTERS = 200  # of a cell
MOST_CELLS = 2_000  # of a table: a notebook keeps what it shows
STYLE = (
    "<style>"
    ".headgate table{border-collapse:collapse;margin:.3em 0;font-size:inherit}"
    ".headgate th,.headgate td{padding:.15em .6em;text-align:left;border:0;"
    "border-bottom:1px solid rgb(128 128 128/.35);white-space:pre;vertical-align:top}"
    ".headgate th.n,.headgate td.n{text-align:right}.headgate i{opacity:.6}.headgate pre{margin:.3em 0;background:none}"
    "</style>"
)


def of_view(view: View, title: str = "", picture: str = "") -> str:
    """The tables that the command line would show, below a picture that is HTML already."""
    head = f"<b>{text(title)}</b>" if title else ""
    return notebook_html([head, picture, *map(_part, view)])


def notebook_html(parts: Iterable[str]) -> str:
    """Parts of HTML as one value of a notebook."""
    return f'<div class="headgate">{STYLE}{"".join(parts)}</div>'


def text(value: object) -> str:
    """Any text: escaped, without control characters, and not too long."""
    shown = printable(value)
    return escape(shown if len(shown) <= MOST_CHARACTERS else shown[: MOST_CHARACTERS - 1] + "…")


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> str:
    """Columns of numbers stand at the right, and NULL is not the text `null`."""
    shown = rows[: max(MOST_CELLS // max(len(columns), 1), 1)]
    right = [any(_is_number(row[i]) for row in shown) for i in range(len(columns))]
    caption = f"<b>{text(title)}</b>" if title else ""
    head = "".join(
        f"<th{_side(is_right)}>{text(name)}</th>"
        for name, is_right in zip(columns, right, strict=True)
    )
    body = "".join(f"<tr>{_cells(row, right)}</tr>" for row in shown)
    left_out = len(rows) - len(shown)
    omission = f"<i>{left_out} more rows are not shown</i>" if left_out else ""
    return f"{caption}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{omission}"


def _part(part: TextTable | Lines) -> str:
    if isinstance(part, TextTable):
        return table(part.columns, part.rows, part.title)
    return f"<pre>{'<br>'.join(escape(printable(line)) for line in part.lines)}</pre>"


def _cells(row: Sequence[object], right: Sequence[bool]) -> str:
    return "".join(
        f"<td{_side(is_right)}>{_cell(value)}</td>"
        for value, is_right in zip(row, right, strict=True)
    )


def _side(is_right: bool) -> str:
    return ' class="n"' if is_right else ""


def _cell(value: object) -> str:
    return "<i>null</i>" if value is None else text(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)

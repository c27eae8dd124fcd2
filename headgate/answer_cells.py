"""Cells of tables of answers: links, states with their colour, counts with separators, relative
times. Cells of users' rows are shown as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from controlplane.core.durations import duration
from headgate import html
from headgate.page_links import PageLinks
from headgate.picture import COLOURS, RESTING

NUMBERED = ("generation", "synced generation", "revision")  # numbers that count nothing
_DATASET = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", re.ASCII)
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")


@dataclass(frozen=True, slots=True)
class AnswerCells:
    """`dataset`: the one that all rows of the answer are about, where there is one."""

    links: PageLinks = field(default_factory=PageLinks)
    dataset: str = ""

    def cell(self, column: str, content: object) -> str:
        """HTML of one cell."""
        match content:
            case str() if column == "state":
                return state(content)
            case str() if column == "dataflow":
                return self.links.of_dataflow(content)
            case str() if column in ("name", "dataset") and _DATASET.fullmatch(content):
                return self.links.of_dataset(content)
            case str() if _INSTANT.fullmatch(content):
                return when(content)
            case bool():  # which is an int, too
                return html.text(content)
            case int() if column == "generation" and self.dataset:
                return self.links.of_generation(self.dataset, content)
            case int() if column not in NUMBERED:
                return f"{content:,}"
            case _:
                return html.text(content)


def state(name: str) -> str:
    """A state in words, after a dot of its colour."""
    colour = COLOURS.get(name, RESTING)
    dot = f'<span style="color:{colour}" aria-hidden="true">●</span>'
    return f'<span class="state">{dot} {html.text(name.replace("_", " "))}</span>'


def when(instant: str) -> str:
    """An instant in UTC as a relative time, with the absolute one on hover: `3 min 20 s ago`. Text
    of users that is no instant, such as `2026-99-99 00:00:00Z`, is shown as it is."""
    try:
        elapsed_s = (datetime.now(UTC) - datetime.fromisoformat(instant)).total_seconds()
    except ValueError:
        return html.text(instant)
    shown = f"{instant[:10]} {instant[11:19]}Z"
    return f'<time datetime="{html.text(instant)}" title="{shown}">{_ago(elapsed_s)}</time>'


def _ago(elapsed_s: float) -> str:
    if elapsed_s <= -1:
        return f"in {duration(-elapsed_s)}"
    if elapsed_s < 1:
        return "now"
    return f"{duration(elapsed_s)} ago"

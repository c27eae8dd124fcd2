"""An answer of the service that shows itself: in a notebook as HTML, elsewhere as the command line
shows it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.cli.output import View, show
from headgate import html
from headgate.answer_cells import AnswerCells


@dataclass(frozen=True, slots=True, repr=False)
class Shown:
    """`answer` is the value of the API, as the client's method gives it; `shown["key"]` is short
    for it. `picture`: SVG that a notebook shows above the rest. `cells`: how a notebook shows cells
    of answers; None for tables that have rows of users. `written`: HTML in place of all that."""

    answer: Mapping[str, Any]
    view: View
    title: str = ""
    picture: str = ""
    cells: AnswerCells | None = None
    written: str = ""

    def __getitem__(self, key: str) -> Any:
        return self.answer[key]

    def __repr__(self) -> str:
        out = io.StringIO()
        show(self.answer, self.view, "table", out)
        return out.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        if self.written:
            return self.written
        cell = None if self.cells is None else self.cells.cell
        return html.of_view(self.view, self.title, self.picture, cell)

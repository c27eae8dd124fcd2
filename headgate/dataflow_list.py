"""All dataflows of a branch: their names, and a table that shows how they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.cli.output import TextTable
from headgate.shown import Shown

if TYPE_CHECKING:
    from controlplane.core.model.answers import DataflowStatus

COLUMNS = ("dataflow", "state", "datasets", "exports", "rows")


class DataflowList(list[str]):
    """The names, in order. It shows itself as a table."""

    def __init__(self, status: Shown) -> None:
        """`status`: the answer of all dataflows."""
        dataflows: list[DataflowStatus] = status["dataflows"]
        super().__init__(flow["name"] for flow in dataflows)
        rows = tuple(_row(flow) for flow in dataflows)
        self._shown = Shown(status.answer, [TextTable(COLUMNS, rows)], cells=status.cells)

    def __repr__(self) -> str:
        return repr(self._shown)

    def _repr_html_(self) -> str:
        return self._shown._repr_html_()


def _row(flow: DataflowStatus) -> tuple[str, str, int, int, int]:
    rows = sum(dataset["rows"] for dataset in flow["datasets"])
    return flow["name"], flow["state"], len(flow["datasets"]), len(flow["targets"]), rows

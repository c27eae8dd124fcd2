"""Views of the service among the tables of queries: `system.cost`.

Its rows come from records of the service, so they are sent along with the query.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.core.model.states import State
from controlplane.core.rights import may
from controlplane.core.schema.ddl_schemas import parse_ddl
from controlplane.operations.context import Context
from controlplane.operations.inspect import spending
from controlplane.ports.store import Tx
from dataplane.contract.encoding import digest
from dataplane.contract.schemas import Json

COST: Final = "system.cost"
COLUMNS: Final = (
    "dataflow STRING, component STRING, owner STRING, day DATE, seconds DOUBLE, tasks BIGINT,"
    " attempts BIGINT, bytes_read BIGINT, bytes_written BIGINT, reused BIGINT, unchanged BIGINT"
)


@dataclass(frozen=True, slots=True)
class ViewRows:
    """The rows of a view, as the state of a table without files. `datasets`: those that they are
    about, which a reader of the result needs the right to read."""

    state: State
    rows: Sequence[list[Json]]
    datasets: Sequence[str]


def cost(ctx: Context, tx: Tx, branch: str) -> ViewRows:
    """Work by dataset and day, of the datasets whose rows the caller may read."""
    spent = spending.read(
        ctx,
        tx,
        branch,
        spending.LONGEST_DAYS,
        lambda name: may(ctx.principal, "data", dataset=name, branch=branch),
    )
    rows: list[list[Json]] = []
    for effort in spent.efforts:
        flow, _, component = effort.dataset.partition(".")
        rows.append(
            [
                flow,
                component,
                spent.owners.get(effort.dataset, ""),
                spending.day_text(effort.day),
                effort.seconds,
                effort.tasks,
                effort.attempts,
                effort.bytes_read,
                effort.bytes_written,
                effort.reused,
                effort.unchanged,
            ]
        )
    datasets = sorted({effort.dataset for effort in spent.efforts})
    return ViewRows(_state(branch, rows, tx.now()), rows, datasets)


def _state(branch: str, rows: Sequence[list[Json]], now: float) -> State:
    """Its root names the rows, so that equal rows have equal results."""
    root = digest("view/1", rows=json.dumps(rows))
    return State(
        branch=branch,
        dataset=COST,
        seq=0,
        generation=0,
        logic=root,
        inputs={},
        root=root,
        schema=parse_ddl(COLUMNS),
        cut={},
        partitions=0,
        rows=len(rows),
        cause="input",
        revision=0,
        at=now,
        lineage=root,
    )

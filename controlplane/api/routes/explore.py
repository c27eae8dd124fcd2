"""What one looks through: the graph, waves, ranges of partitions, one partition, a search. Changes nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from controlplane.api import auth
from controlplane.api.calls import Answer, Branch, Called, answer
from controlplane.core.model.answers.explore import Collapse, GraphAnswer
from controlplane.operations.explore import graph as graphs

Name = Annotated[str | None, Query(max_length=1000)]
Steps = Annotated[int, Query(ge=0, le=1000)]

router = auth.router()


@router.get("/v1/branches/{branch}/graph")
def graph(
    call: Called,
    branch: Branch,
    dataflow: Name = None,
    around: Name = None,
    up: Steps = graphs.STEPS,
    down: Steps = graphs.STEPS,
    collapse: Collapse | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = graphs.MOST_NODES,
) -> Answer[GraphAnswer]:
    """Datasets, how they read each other, and how each stands: of a dataflow, of what is `up` and `down` steps `around`
    a dataset, or of all. `collapse` draws those of one dataflow or tag as one. At most `limit` nodes: the nearest, then
    the worst; `more` counts the others. `structure` is equal for equal names, edges and modes."""
    found = graphs.graph(call.context, branch, dataflow, around=around, up=up, down=down, collapse=collapse, most=limit)
    return answer(found)

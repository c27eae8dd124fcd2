"""What past work cost, and what did not have to run."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from controlplane.api import auth
from controlplane.api.calls import Branch, Called, JsonAnswer, answer
from controlplane.core import rest
from controlplane.core.model.answers.spending import CostAnswer
from controlplane.operations.inspect import spending

router = auth.router("view", "all")


@router.answers(rest.COST)
def cost(
    call: Called,
    branch: Branch,
    target: Annotated[str | None, Query(max_length=1000)] = None,
    days: Annotated[int, Query(ge=1, le=spending.LONGEST_DAYS)] = 7,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> JsonAnswer[CostAnswer]:
    """Seconds, bytes and tasks of the last days by dataflow, component, owner and day; of a
    dataflow or dataset, or of all that the token sees."""
    name = None if target is None else call.target(target)
    return answer(spending.cost(call.context, branch, days, name, limit))

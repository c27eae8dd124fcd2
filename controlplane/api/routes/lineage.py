"""Where a dataset comes from, and what depends on it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from controlplane.api import auth
from controlplane.api.calls import Branch, Called, Dataset, JsonAnswer, answer
from controlplane.api.points import Point
from controlplane.api.routes.datasets import Limit, Partition
from controlplane.core import rest
from controlplane.core.model.answers.lineage import Direction, LineageAnswer
from controlplane.operations.inspect import lineage as inspecting

router = auth.router("view", "all")


@router.answers(rest.LINEAGE)
def lineage(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    point: Point,
    column: Annotated[str | None, Query(max_length=1000)] = None,
    partition: Partition = None,
    direction: Direction = "upstream",
    object: Annotated[str | None, Query(max_length=20_000)] = None,
    limit: Limit = inspecting.SHOWN_LINKS,
) -> JsonAnswer[LineageAnswer]:
    """Where columns and partitions of a dataset come from, up to read components and their source
    objects; or `downstream`, what depends on them. `object`: the partitions that rows of a source
    object are in, downstream of a read component. At most `limit` links; `more` counts the
    others."""
    lineage_request = inspecting.LineageRequest(
        dataset,
        column=column,
        partition=partition,
        point=point,
        direction="downstream" if object is not None else direction,
        object=object,
        limit=limit,
    )
    return answer(inspecting.lineage(call.context, branch, lineage_request, call.services.lake))

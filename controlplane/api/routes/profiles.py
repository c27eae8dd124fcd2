"""Profiles of datasets: NULLs, distinct values and, for who may read rows, what the values are
like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import Query

from controlplane.api import auth
from controlplane.api.calls import Branch, Call, Called, Dataset, JsonAnswer, answer
from controlplane.api.points import Point
from controlplane.core import rest
from controlplane.core.model.answers.profiles import ProfileAnswer, ProfileHistoryAnswer
from controlplane.core.model.json_values import JsonValue
from controlplane.core.rights import may
from controlplane.operations.inspect import audit, dataset_profiles

LONGEST_KEY = 4_000
Column = Annotated[str | None, Query(max_length=1_000, description="Only this column.")]

router = auth.router("view", "all")


@router.answers(rest.PROFILE)
def profile(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    point: Point,
    partition: Annotated[
        str | None, Query(max_length=LONGEST_KEY, description="Only this partition.")
    ] = None,
    column: Column = None,
) -> JsonAnswer[ProfileAnswer]:
    """What each column of one generation is like: NULLs and distinct values, and with the
    permission `data` the least and greatest values, a histogram, frequent values and lengths.
    `is_partial`: another request goes on with the rest."""
    with_values = _may_see_values(call, branch, dataset)
    if with_values:
        _note(call, branch, dataset, {"partition": partition, "column": column})
    content = dataset_profiles.profile(
        call.context,
        branch,
        dataset,
        point,
        partition=partition,
        column=column,
        with_values=with_values,
    )
    return answer(content)


@router.answers(rest.PROFILE_HISTORY)
def history(
    call: Called, branch: Branch, dataset: Dataset, column: Column = None
) -> JsonAnswer[ProfileHistoryAnswer]:
    """What each column was like in the last generations, oldest first, and where it `moved`. Means
    take the permission `data`."""
    with_values = _may_see_values(call, branch, dataset)
    if with_values:
        _note(call, branch, dataset, {"column": column, "over": "generations"})
    return answer(
        dataset_profiles.history(
            call.context, branch, dataset, column=column, with_values=with_values
        )
    )


def _may_see_values(call: Call, branch: str, dataset: str) -> bool:
    return may(call.context.principal, "data", dataset=dataset, branch=branch)


def _note(call: Call, branch: str, dataset: str, what: Mapping[str, JsonValue]) -> None:
    audit.note_read(call.context, "profile", branch, dataset, what)

"""Runs of a branch: commits that belong together, with what started them and what they took."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from controlplane.api import auth
from controlplane.api.calls import Branch, Called, JsonAnswer, answer
from controlplane.core import rest
from controlplane.core.model.answers.work import PastRunAnswer, PastRunsAnswer
from controlplane.operations.inspect import past_runs

router = auth.router("view", "all")


@router.answers(rest.PAST_RUNS)
def listing(
    call: Called,
    branch: Branch,
    target: Annotated[str | None, Query(max_length=1000)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> JsonAnswer[PastRunsAnswer]:
    """The last runs that reached a dataflow or dataset, or any; the last ones first."""
    return answer(
        past_runs.listing(
            call.context, branch, None if target is None else call.target(target), limit
        )
    )


@router.answers(rest.PAST_RUN)
def run(
    call: Called, branch: Branch, run: Annotated[str, Path(max_length=500)]
) -> JsonAnswer[PastRunAnswer]:
    """One run, with its steps and its attempts."""
    return answer(past_runs.past_run(call.context, branch, run))

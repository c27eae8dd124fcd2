"""How branches and generations differ: texts, datasets, partitions, rows."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from controlplane.api import auth
from controlplane.api.calls import (
    DATASET,
    NO_DATASET,
    Branch,
    Call,
    Called,
    Dataset,
    JsonAnswer,
    answer,
    branch_of,
    is_head,
)
from controlplane.api.looks import waiting
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.errors import NotFound
from controlplane.core.model import addresses
from controlplane.core.model.answers import BranchDifference, DataDifference
from controlplane.operations.inspect import audit, branch_diff, data_diff
from controlplane.operations.inspect.data_diff import DiffRequest

COMPARED_S, LONGEST_S = 120.0, 3600.0
Limit = Annotated[int, Query(ge=1, le=1000)]
After = Annotated[str | None, Query(max_length=20_000)]
Key = Annotated[list[str] | None, Query(max_length=100)]
Timeout = Annotated[float, Query(gt=0, le=LONGEST_S)]
Point = Annotated[str | None, Query(max_length=100)]

router = auth.router("view", "all")


@router.answers(rest.DIFF_BRANCHES)
async def branches(
    call: Called,
    branch: Branch,
    other: Annotated[str, Path()],
    dataset: Annotated[str | None, Query(max_length=1000)] = None,
    partition: After = None,
    rows: bool = False,
    key: Key = None,
    after: After = None,
    limit: Limit = 100,
    timeout_s: Timeout = COMPARED_S,
) -> JsonAnswer[BranchDifference | DataDifference]:
    """How two branches differ: components and datasets; of one `dataset` columns and partitions,
    and with `rows`, which needs `data`, the rows, for at most `timeout_s`. `key`: columns that
    identify a row. `next` is the `after` of the next page."""
    if dataset is None:
        if rows or key or partition is not None:
            raise RequestRefused(
                "invalid-request", "rows, key and partition are of one dataset: say which"
            )
        return await waiting(
            call, lambda: _branches(call, branch, other, after, limit), may_wait=False
        )
    if not DATASET.fullmatch(dataset) or not call.has(dataset=dataset):
        raise NotFound(NO_DATASET)
    diff_request = _diff_request(call, after, limit, partition, timeout_s if rows else None, key)

    def work() -> JsonAnswer[BranchDifference | DataDifference]:
        compare, second = call.services.compare, branch_of(call, other)
        if diff_request.timeout_s is not None:
            for read in {branch: second, second: branch}.items():
                audit.note_read(
                    call.context, "rows-diff", read[0], dataset, {"compared_with": read[1]}
                )
        return answer(
            data_diff.of_branches(call.context, compare, branch, second, dataset, diff_request)
        )

    return await waiting(call, work, may_wait=diff_request.timeout_s is not None)


def _branches(
    call: Call, branch: str, other: str, after: str | None, limit: int
) -> JsonAnswer[BranchDifference | DataDifference]:
    difference = branch_diff.difference(
        call.context, branch, branch_of(call, other), after=after, limit=limit
    )
    return answer(difference)


@router.answers(rest.DIFF_DATASET)
async def generations(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    one: Point = None,
    other: Point = None,
    partition: After = None,
    rows: bool = False,
    key: Key = None,
    after: After = None,
    limit: Limit = 100,
    timeout_s: Timeout = COMPARED_S,
) -> JsonAnswer[DataDifference]:
    """How two generations of a dataset differ, as between branches. `one`, `other`: a generation,
    or a time with its zone; the newest by default."""
    points = [None if text is None else addresses.point_of(text) for text in (one, other)]
    diff_request = _diff_request(call, after, limit, partition, timeout_s if rows else None, key)

    def work() -> JsonAnswer[DataDifference]:
        compare = call.services.compare
        one_point, other_point = points
        if diff_request.timeout_s is not None:
            audit.note_read(
                call.context, "rows-diff", branch, dataset, {"one": one, "other": other}
            )
        difference = data_diff.of_points(
            call.context,
            compare,
            branch,
            dataset=dataset,
            first_point=one_point,
            other=other_point,
            request=diff_request,
        )
        return answer(difference)

    return await waiting(call, work, may_wait=diff_request.timeout_s is not None)


def _diff_request(
    call: Call,
    after: str | None,
    limit: int,
    partition: str | None,
    timeout_s: float | None,
    key: list[str] | None,
) -> DiffRequest:
    if timeout_s is not None:
        call.need("data")
    if key and timeout_s is None:
        raise RequestRefused("invalid-request", "a key tells rows apart: ask for rows, too")
    if len(set(key or ())) != len(key or ()):
        raise RequestRefused("invalid-request", "a column stands twice in the key")
    timeout_s = None if is_head(call.request) else timeout_s
    return DiffRequest(after, limit, partition, timeout_s=timeout_s, key=tuple(key or ()))

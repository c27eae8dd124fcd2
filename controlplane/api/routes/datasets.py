"""Looking at datasets: state, partitions, history, causes."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Response
from fastapi.responses import PlainTextResponse

from controlplane.api import auth
from controlplane.api.calls import Branch, Called, Dataflow, Dataset, JsonAnswer, answer
from controlplane.api.looks import LISTED_S, Timeout, look, waiting
from controlplane.api.points import Number, Point, Time, moment
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.model.addresses import generation_of
from controlplane.core.model.answers import (
    AllChecksAnswer,
    ChecksAnswer,
    DatasetAnswer,
    GenerationsAnswer,
    HistoryAnswer,
    PartitionsAnswer,
    StatusAnswer,
    TargetStatus,
    TasksAnswer,
    WhyAnswer,
)
from controlplane.core.model.answers.datasets import PartitionWork
from controlplane.core.model.answers.work import AttemptsAnswer
from controlplane.core.rights import may
from controlplane.operations.explore import partitions as some_partitions
from controlplane.operations.inspect import causes, consistency, datasets, overview
from controlplane.operations.inspect import tasks as notes

Limit = Annotated[int, Query(ge=1, le=10_000)]
Partition = Annotated[str | None, Query(max_length=20_000)]

router = auth.router("view", "all")


@router.answers(rest.STATUS)
async def status(
    call: Called,
    branch: Branch,
    target: Annotated[str | None, Query(max_length=1000)] = None,
    refresh: bool = False,
    long: bool = False,
    timeout_s: Timeout = LISTED_S,
) -> JsonAnswer[StatusAnswer]:
    """The state of everything, or of one dataflow or dataset. With `refresh`, workers list the
    sources first, for at most `timeout_s`, which needs `operate`. `as_of` of a source is the time
    of its last listing. `long`: also what the last commits took, and the running attempts."""

    def work() -> JsonAnswer[StatusAnswer]:
        target_seen = None if target is None else call.target(target)
        if refresh:
            call.need("operate")
            look(
                call, branch, overview.sources(call.context, branch, target=target_seen), timeout_s
            )
        return answer(overview.status(call.context, branch, target_seen, long=long))

    return await waiting(call, work, may_wait=refresh)


@router.answers(rest.DATASET)
def dataset(
    call: Called, branch: Branch, dataset: Dataset
) -> JsonAnswer[DatasetAnswer | TargetStatus]:
    """State, schema, generation, totals and the published table of one dataset."""
    return answer(datasets.dataset(call.context, branch, dataset))


@router.answers(rest.PARTITIONS)
def partitions(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    point: Point,
    after: Partition = None,
    limit: Limit = 100,
    prefix: Annotated[str, Query(max_length=1_000)] = "",
    state: PartitionWork | None = None,
    changed_in: Number = None,
) -> JsonAnswer[PartitionsAnswer]:
    """Partitions of one committed generation, in order of their keys; `next` is the `after` of the
    next page, which is of the same generation if that is sent, too. `prefix`: keys that begin so.
    `state`: of the newest generation, or not there yet, with work to do or a failed task.
    `changed_in`: what this generation added, changed or removed."""
    page = some_partitions.KeyPage(prefix, after, limit)
    if sum(choice is not None for choice in (point, state, changed_in)) > 1:
        raise RequestRefused(
            "invalid-request", "generation, at, state and changed_in exclude each other; send one"
        )
    if state is not None:
        return answer(some_partitions.with_work(call.context, branch, dataset, state, page))
    if changed_in is not None:
        number = generation_of(changed_in).number
        return answer(some_partitions.changed_in(call.context, branch, dataset, number, page))
    partition_page = datasets.partitions(
        call.context, branch, dataset, after=after, limit=limit, point=point, prefix=prefix
    )
    return answer(partition_page)


@router.answers(rest.HISTORY)
def history(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    point: Point,
    before: Number = None,
    limit: Limit = 100,
) -> JsonAnswer[HistoryAnswer]:
    """Generations, newest first; `next` is the `before` of the next page. `generation`, `at`: those
    up to it."""
    return answer(
        datasets.history(call.context, branch, dataset, before=before, limit=limit, point=point)
    )


@router.answers(rest.GENERATIONS)
def generations(
    call: Called, branch: Branch, dataflow: Dataflow, at: Time = None, consistent: bool = False
) -> JsonAnswer[GenerationsAnswer]:
    """Which generation each dataset of a dataflow has, or had at a time. `consistent`: the newest
    by then that were made of the same sources."""
    newest = consistency.generations(
        call.context, branch, dataflow, moment(at), is_consistent=consistent
    )
    return answer(newest)


@router.answers(rest.CHECKS)
def checks(
    call: Called, branch: Branch, dataset: Dataset, point: Point
) -> JsonAnswer[ChecksAnswer]:
    """The expectations of a dataset's rows, and their results in one generation, the newest by
    default. Examples of failing rows need `data`; the lists are empty without it."""
    dataset_checks = datasets.checks(call.context, branch, dataset, point)
    return answer(
        dataset_checks
        if may(call.context.principal, "data")
        else datasets.without_rows(dataset_checks)
    )


@router.answers(rest.ALL_CHECKS)
def all_checks(call: Called, branch: Branch) -> JsonAnswer[AllChecksAnswer]:
    """Expectations of all datasets, with their results in the newest generations. Examples of
    failing rows need `data`; the lists are empty without it."""
    items = datasets.all_checks(call.context, branch)
    is_seen = may(call.context.principal, "data")
    return answer(
        {"items": items if is_seen else [*map(datasets.without_rows, items)], "next": None}
    )


@router.answers(rest.TASKS)
def tasks(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    after: Annotated[int, Query(ge=0, le=10**9)] = 0,
    limit: Limit = 100,
    state: Annotated[Literal["ended"] | None, Query()] = None,
) -> JsonAnswer[TasksAnswer | AttemptsAnswer]:
    """Tasks that a dataset asks for at present; `next` is the `after` of the next page.
    `state=ended`: attempts that are over instead, the last ones first."""
    if state is not None:
        return answer(notes.ended(call.context, branch, dataset, limit))
    return answer(notes.tasks(call.context, branch, dataset, after=after, limit=limit))


@router.responds(
    rest.DATASET_LOG, response_class=PlainTextResponse, dependencies=auth.needs("data")
)
def log(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    tail: Annotated[int, Query(ge=1, le=10_000)] = 200,
) -> Response:
    """The last lines about a dataset's newest attempt in its driver's log."""
    attempt, text = notes.log_of_dataset(call.context, branch, dataset, tail, call.services.log)
    headers = {
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Attempt": attempt,
    }
    return PlainTextResponse(text, headers=headers)


@router.answers(rest.WHY)
def why(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    point: Point,
    partition: Partition = None,
    shows_all: Annotated[bool, Query(alias="all")] = False,
) -> JsonAnswer[WhyAnswer]:
    """The causes of a dataset or of one partition of it; with `generation` or `at`, of an earlier
    generation. `all`: with inputs that did not change."""
    if point is not None:
        return answer(
            causes.why_past(call.context, branch, dataset, point, partition, shows_all=shows_all)
        )
    return answer(causes.why(call.context, branch, dataset, partition, shows_all=shows_all))

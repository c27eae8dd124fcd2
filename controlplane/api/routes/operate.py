"""Requests of an operator: refresh, retry, pause, resume; and the logs to look into."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Annotated

from fastapi import Path, Query, Response
from fastapi.responses import PlainTextResponse
from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import Attempt, Branch, Call, Called, ClosedBody, JsonAnswer, answer
from controlplane.api.looks import LONGEST_S, await_listings, waiting
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.model.answers import PauseAllAnswer, PauseAnswer, RefreshAnswer, RetryAnswer
from controlplane.core.model.forces import KeyRange
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.inspect import source_changes, tasks

TaskKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

router = auth.router("operate", "all")


class Wish(ClosedBody):
    """What to do it to: a dataflow, a dataset, or everything."""

    target: str | None = Field(default=None, max_length=1000)


class Retry(Wish):
    """`tasks`: only what still wants one of these tasks, by their keys, and no listings.
    `partition`: only the tasks of this partition of the dataset that `target` names, and nothing
    upstream of it."""

    tasks: list[TaskKey] | None = Field(default=None, max_length=50_000)
    partition: str | None = Field(default=None, max_length=20_000)


class PartitionsWithin(ClosedBody):
    """Partitions with keys from `first` to `last`, both inclusive, by code points; all before or
    after without one of them."""

    first: str = Field(default="", max_length=20_000)
    last: str | None = Field(default=None, max_length=20_000)


class Refresh(Wish):
    """`accept_deletes` confirms a loss of source objects that waits for confirmation; `force` makes
    the target again; `partitions` makes only these of a dataset again. `schema` infers the columns
    of its sources again. `wait_s`: answer once
    workers have listed the sources, or after this time, with the changes there."""

    accept_deletes: bool = False
    force: bool = False
    partitions: PartitionsWithin | None = None
    schema_: bool = Field(default=False, alias="schema")
    wait_s: float = Field(default=0.0, ge=0, le=LONGEST_S)


@router.answers(rest.REFRESH)
async def refresh(
    call: Called, branch: Branch, body: Refresh | None = None
) -> JsonAnswer[RefreshAnswer]:
    """List sources now; with `force`, compute the target again. With `wait_s`, `changes` has what
    the listings found."""
    options = body or Refresh()
    work = partial(_refreshed, call, branch, options)
    return await waiting(
        call, lambda: call.once(lambda: answer(work())), may_wait=options.wait_s > 0
    )


def _refreshed(call: Call, branch: str, options: Refresh) -> RefreshAnswer:
    context = call.context
    how = {
        "accept_deletes": options.accept_deletes,
        "force": options.force,
        "schema": options.schema_,
    }
    within = options.partitions
    refreshed, requests = controls.ask_refresh(
        context,
        branch,
        call.target(options.target),
        partitions=KeyRange(within.first, within.last) if within else None,
        **how,
    )
    if options.wait_s > 0:
        unseen = await_listings(call, requests, options.wait_s)
        refreshed["changes"] = source_changes.of_requests(context, requests, unseen)
    return refreshed


@router.answers(rest.RETRY)
def retry(call: Called, branch: Branch, body: Retry | None = None) -> JsonAnswer[RetryAnswer]:
    """Try failed tasks again: all, or those that are named."""
    options = body or Retry()
    target = call.target(options.target)
    if options.partition is not None:
        return call.once(lambda: answer(_retried_partition(call.context, branch, target, options)))
    named = None if options.tasks is None else frozenset(map(bytes.fromhex, options.tasks))
    return call.once(lambda: answer(controls.retry(call.context, branch, target, among=named)))


def _retried_partition(
    context: Context, branch: str, target: str | None, options: Retry
) -> RetryAnswer:
    if target is None or "." not in target:
        raise RequestRefused(
            "invalid-request", "a partition is of a dataset: name it as target, such as shop.orders"
        )
    if options.tasks is not None:
        raise RequestRefused("invalid-request", "send either tasks or a partition")
    assert options.partition is not None
    return controls.retry_partition(context, branch, target, options.partition)


@router.answers(rest.PAUSE)
def pause(
    call: Called, branch: Branch, options: Wish | None = None
) -> JsonAnswer[PauseAnswer | PauseAllAnswer]:
    """Start no more work; committed rows stay readable."""
    return call.once(lambda: answer(_each(call, branch, options, controls.pause)))


@router.answers(rest.RESUME)
def resume(
    call: Called, branch: Branch, options: Wish | None = None
) -> JsonAnswer[PauseAnswer | PauseAllAnswer]:
    """Take back a pause, and let datasets that were rolled back go on."""
    return call.once(lambda: answer(_each(call, branch, options, controls.resume)))


@router.responds(
    rest.ATTEMPT_LOG, response_class=PlainTextResponse, dependencies=auth.needs("data")
)
def log(
    call: Called, attempt: Attempt, tail: Annotated[int, Query(ge=1, le=10_000)] = 200
) -> Response:
    """The last lines about an attempt in its driver's log."""
    text = tasks.log(call.context, attempt, tail, call.services.log).text
    return PlainTextResponse(
        text, headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    )


@router.responds(
    rest.DRIVER_LOG, response_class=PlainTextResponse, dependencies=auth.needs("admin")
)
def driver_log(
    call: Called,
    driver: Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,200}$")],
    tail: Annotated[int, Query(ge=1, le=10_000)] = 200,
) -> Response:
    """The last lines of the log of a driver or worker."""
    text = tasks.log_of_driver(call.context, driver, tail, call.services.log)
    return PlainTextResponse(
        text, headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    )


def _each(
    call: Call, branch: str, options: Wish | None, work: Callable[[Context, str, str], PauseAnswer]
) -> PauseAnswer | PauseAllAnswer:
    """Pauses belong to names: without a target, every dataflow that there is now, and that the
    token may."""
    if (
        options is not None
        and options.target is not None
        and (target := call.target(options.target))
    ):
        return work(call.context, branch, target)
    there = (flow["name"] for flow in blueprints.dataflows(call.context, branch))
    names = [name for name in there if call.has(dataflow=name)]
    done = [work(call.context, branch, name) for name in names]
    summary: PauseAllAnswer = {"target": None, "targets": names}
    if still := _united(pause_answer.get("still_paused", []) for pause_answer in done):
        summary["still_paused"] = still
    if by := _united(pause_answer.get("by", []) for pause_answer in done):
        summary["by"] = by
    if released := _united(pause_answer.get("released", []) for pause_answer in done):
        summary["released"] = released
    if held := _united(pause_answer.get("still_held", []) for pause_answer in done):
        summary["still_held"] = held
    return summary


def _united(lists: Iterable[list[str]]) -> list[str]:
    """All of them, each once, in the order in which they come first."""
    return list(dict.fromkeys(chain.from_iterable(lists)))

"""Requests that wait until workers have looked at sources, and Spark at an edit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, TypeAlias, TypeVar

from anyio import to_thread
from fastapi import Query

from controlplane.api.calls import Call
from controlplane.core.compile.nodes import Source
from controlplane.core.review import AnalyseRequest
from controlplane.operations.desired import blueprints
from controlplane.operations.planning import edit_review
from controlplane.operations.work import listing_requests
from controlplane.operations.work.listing_requests import ListingRequests

T = TypeVar("T")
Questions: TypeAlias = Callable[[], tuple[AnalyseRequest, ...]]
LISTED_S = 60.0  # how long a request waits for listings and analyses, where it does not say
UNANALYSED = "Spark has not answered in {timeout_s:g} s"
NO_DRIVER = "Spark ended: {reason}"
LONGEST_S = 3600.0


@dataclass(frozen=True, slots=True)
class ListingOutcome:
    """`plan`: the id under which sources were listed. `unseen`: why a dataset's source was not
    looked at."""

    plan: str = ""
    unseen: Mapping[str, str] = field(default_factory=dict)


Timeout: TypeAlias = Annotated[float, Query(ge=0, le=LONGEST_S)]
# Between looks: who shares the database is not heard, nor is a listing without news
SOONEST_S, LATEST_S = 0.02, 1.0


async def waiting(call: Call, work: Callable[[], T], *, may_wait: bool) -> T:
    """Run a request. One that may wait for workers takes a thread of those that do, so that others
    find a thread."""
    threads = call.services.threads
    return await to_thread.run_sync(
        work, limiter=threads.connections if may_wait else threads.users
    )


def look(call: Call, branch: str, nodes: Iterable[Source], timeout_s: float) -> Mapping[str, str]:
    """Have these sources listed, and wait until that is done. Answers why a dataset's source was
    not looked at."""
    return await_listings(call, listing_requests.ask(call.context, branch, nodes), timeout_s)


def look_for_plan(
    call: Call, branch: str, nodes: Iterable[Source], timeout_s: float
) -> ListingOutcome:
    """As `look`, for a plan of these sources: only this plan sees the listings."""
    plan = uuid.uuid4().hex
    requests = listing_requests.ask_for_plan(call.context, branch, nodes, plan)
    return ListingOutcome(plan, await_listings(call, requests, timeout_s))


def await_listings(call: Call, requests: ListingRequests, timeout_s: float) -> Mapping[str, str]:
    wait_until(call, timeout_s, lambda: not listing_requests.open_of(call.context, requests))
    return listing_requests.end(call.context, requests, timeout_s)


@contextmanager
def analysed(
    call: Call,
    branch: str,
    sources: Sequence[blueprints.SentBlueprint],
    deadline: float,
    timeout_s: float,
    looked: str = "",
) -> Iterator[str]:
    """Have Spark analyse an edit, layer by layer: the columns of a query are inputs to the analysis
    of its readers. Yields why answers are missing, if any. All requests are deleted at the end."""
    questions = partial(blueprints.questions, call.context, branch, sources, looked)
    with answered(call, branch, questions, deadline, timeout_s) as unanswered:
        yield unanswered


@contextmanager
def answered(
    call: Call, branch: str, questions: Questions, deadline: float, timeout_s: float
) -> Iterator[str]:
    """As `analysed`, of what `questions` says at each layer."""
    datasets: set[str] = set()
    try:
        yield _ask(call, branch, questions, datasets, deadline=deadline, timeout_s=timeout_s)
    finally:
        if datasets:
            edit_review.forget(call.context, branch, sorted(datasets))


def _ask(
    call: Call,
    branch: str,
    questions: Questions,
    datasets: set[str],
    *,
    deadline: float,
    timeout_s: float,
) -> str:
    while requests := questions():
        datasets |= {request.task.dataset for request in requests}
        layer = _Layer(call, branch, requests)
        layer.ask()
        wait_until(call, deadline - time.monotonic(), layer.is_over)
        if layer.missing:
            return layer.no_driver or UNANALYSED.format(timeout_s=timeout_s)
    return ""


class _Layer:
    """Analyses that are requested together."""

    def __init__(self, call: Call, branch: str, requests: tuple[AnalyseRequest, ...]) -> None:
        self._call, self._branch = call, branch
        self.missing, self.no_driver = requests, ""

    def ask(self) -> None:
        edit_review.ask(self._call.context, self._branch, self.missing)

    def is_over(self) -> bool:
        """All are answered, or no worker will answer them."""
        self.missing = edit_review.unanswered(self._call.context, self._branch, self.missing)
        if not self.missing:
            return True
        reason = self._call.services.analyser()
        self.no_driver = NO_DRIVER.format(reason=reason) if reason else ""
        return bool(reason)


def wait_until(call: Call, timeout_s: float, is_done: Callable[[], bool]) -> None:
    """Look at once, after each notice, and now and then; until it is done, the time is up, or this
    process ends."""
    deadline, pause_s = time.monotonic() + timeout_s, SOONEST_S
    wake = call.services.wake.of(call.context.namespace)
    while not call.services.stopping.is_set():
        count = wake.count
        left = deadline - time.monotonic()
        if is_done() or left <= 0:
            return
        wake.wait(min(left, pause_s), count)
        pause_s = min(2 * pause_s, LATEST_S)

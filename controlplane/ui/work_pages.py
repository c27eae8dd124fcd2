"""Pages of work: what ran and runs, attempts with their logs, expectations, sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from controlplane.core.errors import NotFound
from controlplane.core.model.answers.work import PastRunAnswer
from controlplane.operations.desired import blueprints
from controlplane.operations.inspect import attempt_log, past_runs, spending
from controlplane.operations.inspect.attempt_log import AttemptLog
from controlplane.operations.inspect.datasets import without_rows
from controlplane.operations.inspect.hidden import visible
from controlplane.ui import run_timeline, work_views
from controlplane.ui.names import ATTEMPT, FLOW
from controlplane.ui.page import Page, both, named, no_such, nothing
from controlplane.ui.page_request import PageRequest
from controlplane.ui.session_rights import may
from controlplane.ui.work_values import AttemptPage, ChecksPage, CostPage, SourcesPage

RUN = re.compile(r"[^/\x00-\x1f]{1,500}")
DAY_CHOICES, WEEK = (1, 7, 30), 7
COST_ROWS = 100
STATES = ("failed", "warning", "overdue", "ok")


def _cost(page_request: PageRequest) -> CostPage:
    chosen = page_request.query("flow")
    if chosen and not (FLOW.fullmatch(chosen) and page_request.may("view", chosen)):
        raise no_such("dataflow")
    chosen_days = _days(page_request)
    declared = blueprints.dataflows(page_request.context, page_request.branch)
    return {
        "flow": chosen,
        "days": chosen_days,
        "dataflows": [f["name"] for f in declared if page_request.may("view", f["name"])],
        "cost": visible(
            page_request.context,
            spending.cost(
                page_request.context, page_request.branch, chosen_days, chosen or None, COST_ROWS
            ),
        ),
    }


def _days(page_request: PageRequest) -> int:
    days = page_request.query("days")
    return int(days) if days in map(str, DAY_CHOICES) else WEEK


def _cost_command(page_request: PageRequest) -> str:
    command = f"headgate cost {page_request.query('flow')}".rstrip()
    return f"{command} --days {_days(page_request)}"


def _day_choices(page_request: PageRequest, page: CostPage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"day_choices": DAY_CHOICES}


def _run(page_request: PageRequest) -> PastRunAnswer:
    id = named(page_request, "run", RUN)
    try:
        return visible(
            page_request.context, past_runs.past_run(page_request.context, page_request.branch, id)
        )
    except NotFound:
        raise past_runs.no_run(page_request.branch, id) from None


def _timeline(page_request: PageRequest, page: PastRunAnswer) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"timeline": run_timeline.of_run(page)}


def _attempt(page_request: PageRequest) -> AttemptPage:
    id = named(page_request, "attempt", ATTEMPT)
    return work_views.attempt(
        page_request.context, id, page_request.services.log, with_log=_may_see_logs(page_request)
    )


def _lines(page_request: PageRequest, page: AttemptPage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    log = AttemptLog(page["log"], page["first"], page["is_own"])
    return {"lines": attempt_log.levelled(log)}


def _may_see_logs(page_request: PageRequest) -> bool:
    """A driver's log concerns all that it worked on, so a token within dataflows does not see
    it."""
    return may(page_request.token, "data") and not page_request.token.principal.within


def _checks(page_request: PageRequest) -> ChecksPage:
    state = page_request.query("state")
    page = work_views.checks(
        page_request.context, page_request.branch, state if state in STATES else ""
    )
    if not may(page_request.token, "data"):
        page["items"] = [*map(without_rows, page["items"])]
    return page


def _check_states(page_request: PageRequest, page: ChecksPage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"states": STATES}


def _sources(page_request: PageRequest) -> SourcesPage:
    return work_views.sources(
        page_request.context, page_request.branch, page_request.query("after")
    )


COST = Page("cost.html", _cost, _day_choices, _cost_command)
RUN_PAGE = Page(
    "run.html",
    _run,
    _timeline,
    lambda page_request: f"headgate runs {named(page_request, 'run', RUN)}",
)
ATTEMPT_PAGE = Page(
    "attempt.html",
    _attempt,
    _lines,
    lambda page: f"headgate logs {named(page, 'x', ATTEMPT)}",
    is_of_branch=False,
)
CHECKS = Page("checks.html", _checks, _check_states, lambda _: "headgate status")
SOURCES = Page("sources.html", _sources, nothing, lambda _: "headgate plan")
ROUTES: list[Route] = [
    *both("/activity/{name}", RUN_PAGE),
    *both("/cost", COST),
    *both("/attempts/{name}", ATTEMPT_PAGE),
    *both("/checks", CHECKS),
    *both("/sources", SOURCES),
]

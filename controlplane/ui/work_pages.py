"""Pages of work: what ran and runs, attempts with their logs, expectations, sources.

Does not belong here: what a page is (`page`), what a value has (`work_views`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.routing import Route

from controlplane.core.errors import NotFound
from controlplane.core.model.answers.work import PastRunAnswer
from controlplane.operations.inspect import past_runs
from controlplane.operations.inspect.hidden import seen
from controlplane.ui import work_views
from controlplane.ui.asking import Asking
from controlplane.ui.names import ATTEMPT
from controlplane.ui.page import Page, both, named, nothing
from controlplane.ui.rights import may
from controlplane.ui.work_values import ActivityPage, AttemptPage, ChecksPage, SourcesPage

RUN = re.compile(r"[^/\x00-\x1f]{1,500}")
STATES = ("failed", "warning", "overdue", "ok")


def _activity(asked: Asking) -> ActivityPage:
    with_audit = may(asked.token, "admin")
    return work_views.activity(asked.context, asked.branch, asked.query("flow"), with_audit=with_audit)


def _run(asked: Asking) -> PastRunAnswer:
    id = named(asked, "run", RUN)
    try:
        return seen(asked.context, past_runs.one(asked.context, asked.branch, id))
    except NotFound:
        raise past_runs.no_run(asked.branch, id) from None


def _attempt(asked: Asking) -> AttemptPage:
    id = named(asked, "attempt", ATTEMPT)
    return work_views.attempt(asked.context, id, asked.services.log, with_log=_may_see_logs(asked))


def _may_see_logs(asked: Asking) -> bool:
    """What a driver said is of all that it worked on."""
    return may(asked.token, "data") and not asked.token.principal.within


def _checks(asked: Asking) -> ChecksPage:
    state = asked.query("state")
    return work_views.checks(asked.context, asked.branch, state if state in STATES else "")


def _check_states(asked: Asking, page: ChecksPage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"states": STATES}


def _sources(asked: Asking) -> SourcesPage:
    return work_views.sources(asked.context, asked.branch, asked.query("after"))


ACTIVITY = Page("activity.html", _activity, nothing, lambda _: "headgate runs")
RUN_PAGE = Page("run.html", _run, nothing, lambda asked: f"headgate runs {named(asked, 'run', RUN)}")
ATTEMPT_PAGE = Page(
    "attempt.html", _attempt, nothing, lambda asked: f"headgate logs {named(asked, 'x', ATTEMPT)}", is_of_branch=False
)
CHECKS = Page("checks.html", _checks, _check_states, lambda _: "headgate status")
SOURCES = Page("sources.html", _sources, nothing, lambda _: "headgate plan")
ROUTES: list[Route] = [
    *both("/activity", ACTIVITY),
    *both("/activity/{name}", RUN_PAGE),
    *both("/attempts/{name}", ATTEMPT_PAGE),
    *both("/checks", CHECKS),
    *both("/sources", SOURCES),
]

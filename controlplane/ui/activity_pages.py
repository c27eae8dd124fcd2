"""The page of activity: runs by filters, with a histogram, and the audit on a tab of its own.

All filters stand in the address: `/activity?state=failed&from=2026-11-24T00:00`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, get_args

from starlette.routing import Route

from controlplane.core.errors import NotFound
from controlplane.core.model import addresses
from controlplane.core.model.answers import AuditEntry
from controlplane.core.model.answers.work import RunState
from controlplane.operations.inspect import audit, overview, past_runs, work_under_way
from controlplane.operations.inspect.hidden import visible
from controlplane.ui import audit_words
from controlplane.ui.forms import own_address
from controlplane.ui.names import number_of
from controlplane.ui.page import Page, both
from controlplane.ui.page_request import PageRequest
from controlplane.ui.run_search import RunFilter, TimeRange, histogram
from controlplane.ui.session_rights import may
from controlplane.ui.work_values import ActivityPage, ActivitySearch

V = TypeVar("V")
AUDIT: Final = "audit"  # a tab
RUN_STATES: Final[tuple[str, ...]] = get_args(RunState)
ROWS: Final = 50  # on a page
SEARCHED: Final = 1_000  # of the newest runs or changes
NOT_KEPT: Final = ("part", "skip")  # fields of an address that another filter or tab drops
WITHOUT_ZONE: Final = re.compile(r"[\d-]+[T ][\d:.]+", re.ASCII)  # 2026-11-24T00:00


def _activity(page_request: PageRequest) -> ActivityPage:
    """Raises NotFound for an unknown dataflow, NotAllowed, BadAddress for no time."""
    ctx, branch = page_request.context, page_request.branch
    flow = page_request.query("flow")
    status = visible(ctx, overview.status(ctx, branch))
    dataflows = [flow_status["name"] for flow_status in status["dataflows"]]
    if flow and flow not in dataflows:
        raise NotFound(f"there is no dataflow {flow} in branch {branch}")
    page: ActivityPage = {
        "flow": flow,
        "dataflows": dataflows,
        "runs": [],
        "histogram": [],
        "audit": None,
        "search": _nothing_searched(),
        "work": visible(ctx, work_under_way.of_branch(ctx, branch)),
        "drivers": status["drivers"],
        "leader": status["leader"],
    }
    return (
        _with_audit(page_request, page)
        if _is_audit(page_request)
        else _with_runs(page_request, page)
    )


def _is_audit(page_request: PageRequest) -> bool:
    return page_request.query("tab") == AUDIT


def _nothing_searched() -> ActivitySearch:
    return {"total": 0, "is_cut": False, "next": None, "actors": [], "causes": [], "machines": 0}


def _with_runs(page_request: PageRequest, page: ActivityPage) -> ActivityPage:
    ctx, branch = page_request.context, page_request.branch
    newest = past_runs.listing(ctx, branch, page["flow"] or None, SEARCHED + 1)["items"]
    searched = visible(ctx, newest[:SEARCHED])
    run_filter = _run_filter(page_request)
    chosen = [run for run in searched if run_filter.chooses(run)]
    rows, following = _page_of(page_request, chosen)
    return {
        **page,
        "runs": rows,
        "histogram": histogram(chosen),
        "search": {
            "total": len(chosen),
            "is_cut": len(newest) > SEARCHED,
            "next": following,
            "actors": sorted({run["actor"] for run in searched if run["actor"]}),
            "causes": sorted({run["cause"] for run in searched}),
            "machines": 0,
        },
    }


def _run_filter(page_request: PageRequest) -> RunFilter:
    return RunFilter(
        state=page_request.query("state"),
        cause=page_request.query("cause"),
        actor=page_request.query("actor"),
        dataset=page_request.query("dataset"),
        times=_times(page_request),
    )


def _times(page_request: PageRequest) -> TimeRange:
    return time_range(page_request.query("from"), page_request.query("to"))


def time_range(since: str, until: str) -> TimeRange:
    """From two fields of an address, each of which may be empty. Raises BadAddress."""
    return TimeRange(_time(since), _time(until))


def _time(text: str) -> float | None:
    """Seconds since 1970. A time without a zone is one of UTC, as fields of forms send it."""
    if not text:
        return None
    zoned = f"{text}Z" if WITHOUT_ZONE.fullmatch(text) else text
    return addresses.moment_of(zoned, text).milliseconds / 1000


def _time_field(at: float | None) -> str:
    """As a field of a form has it, in UTC; empty for no time."""
    if at is None:
        return ""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None).isoformat(timespec="seconds")


def _with_audit(page_request: PageRequest, page: ActivityPage) -> ActivityPage:
    page_request.require("admin")
    times = _times(page_request)
    newest = audit.changes(
        page_request.context,
        page_request.branch,
        SEARCHED + 1,
        since=times.since or 0.0,
        until=times.until,
    )["items"]
    searched = newest[:SEARCHED]
    matching = [change for change in searched if _is_chosen(page_request, change)]
    by_people = [change for change in matching if change["actor"] not in audit_words.MACHINES]
    chosen = matching if _shows_machines(page_request) else by_people
    rows, following = _page_of(page_request, chosen)
    return {
        **page,
        "audit": rows,
        "search": {
            "total": len(chosen),
            "is_cut": len(newest) > SEARCHED,
            "next": following,
            "actors": sorted({change["actor"] for change in searched}),
            "causes": [],
            "machines": len(matching) - len(chosen),
        },
    }


def _is_chosen(page_request: PageRequest, change: AuditEntry) -> bool:
    """True if the actor and the target agree with the filter."""
    target = page_request.query("dataset")
    is_target = target in ("", change["target"], audit_words.target_name(change))
    return is_target and page_request.query("actor") in ("", change["actor"])


def _shows_machines(page_request: PageRequest) -> bool:
    """An actor that is chosen is shown, whether a person or a process."""
    return bool(page_request.query("machines") or page_request.query("actor"))


def _page_of(page_request: PageRequest, rows: Sequence[V]) -> tuple[list[V], int | None]:
    """The rows of the page, and the `skip` of the next one."""
    skip = number_of(page_request.query("skip")) or 0
    end = skip + ROWS
    return [*rows[skip:end]], end if end < len(rows) else None


def _shown(page_request: PageRequest, page: ActivityPage) -> Mapping[str, Any]:
    request = page_request.request
    times = _times(page_request)
    filters = ("state", "cause", "actor", "dataset", "from", "to", "machines", "flow")

    def address(**fields: str) -> str:
        """This page with other fields, from its first row."""
        return own_address(request, without=NOT_KEPT, **fields)

    return {
        "states": RUN_STATES,
        "is_audit": _is_audit(page_request),
        "may_audit": may(page_request.token, "admin"),
        "chosen": {name: page_request.query(name) for name in filters},
        "since": _time_field(times.since),
        "until": _time_field(times.until),
        "is_filtered": any(page_request.query(name) for name in filters),
        "address": address,
        "most_bar": max((bar["runs"] for bar in page["histogram"]), default=0),
        "phrase": audit_words.phrase,
        "target_name": audit_words.target_name,
        "searched": SEARCHED,
        "generations_searched": past_runs.STATES_SHOWN,
    }


def _command(page_request: PageRequest) -> str:
    if _is_audit(page_request):
        return "headgate audit"
    return (
        f"headgate runs {shlex.quote(page_request.query('flow'))}"
        if page_request.query("flow")
        else "headgate runs"
    )


ACTIVITY = Page("activity.html", _activity, _shown, _command)
ROUTES: list[Route] = [*both("/activity", ACTIVITY)]

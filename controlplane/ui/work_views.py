"""The content of the pages of work, sources, expectations and branches: values put together from
operations. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection

from controlplane.core.errors import HeadgateError, NotFound
from controlplane.core.model.answers import ChecksAnswer
from controlplane.core.model.branches import MAIN
from controlplane.operations.context import Context
from controlplane.operations.desired import branches, merging
from controlplane.operations.inspect import (
    attempt_faults,
    branch_diff,
    data_age,
    datasets,
    overview,
    tasks,
)
from controlplane.operations.inspect.hidden import visible, words
from controlplane.ui.work_values import (
    AttemptPage,
    BranchesPage,
    ChecksPage,
    ComparePage,
    SourceEntry,
    SourcesPage,
)

SOURCES = 100
LOG_LINES = 400


def attempt(ctx: Context, id: str, of: Callable[[str, int], str], *, with_log: bool) -> AttemptPage:
    """Raises NotFound."""
    page: AttemptPage = {
        "attempt": visible(ctx, tasks.attempt(ctx, id)),
        "faults": visible(ctx, attempt_faults.of_attempt(ctx, id)),
        "log": "",
        "first": 1,
        "is_own": True,
        "problem": None,
    }
    if not with_log:
        return {**page, "problem": "this token may not see logs"}
    try:
        log = tasks.log(ctx, id, LOG_LINES, of)
    except (HeadgateError, OSError) as error:
        return {**page, "problem": words(ctx, str(error))}
    return {**page, "log": log.text, "first": log.first, "is_own": log.is_own}


def checks(ctx: Context, branch: str, state: str) -> ChecksPage:
    """`state`: of expectations that are to be shown; empty for all."""
    every = visible(ctx, datasets.all_checks(ctx, branch))
    ages = visible(ctx, data_age.listing(ctx, branch))
    results = [
        checked["state"] for answer in every for checked in (*answer["rejected"], *answer["items"])
    ]
    return {
        "state": state,
        "items": [
            answer
            for answer in (_of_state(answer, state) for answer in every)
            if _is_filled(answer)
        ],
        "total": len(results),
        "failing": results.count("failed"),
        "warning": results.count("warning"),
        "overdue": sum(checked["late"] for checked in ages),
        "freshness": [
            checked for checked in ages if state in ("", "overdue" if checked["late"] else "ok")
        ],
    }


def _of_state(answer: ChecksAnswer, state: str) -> ChecksAnswer:
    if not state:
        return answer
    items, rejected = (
        [checked for checked in some if checked["state"] == state]
        for some in (answer["items"], answer["rejected"])
    )
    return {**answer, "items": items, "rejected": rejected}


def _is_filled(answer: ChecksAnswer) -> bool:
    return bool(answer["items"] or answer["rejected"])


def sources(ctx: Context, branch: str, after: str) -> SourcesPage:
    """A page of sources in order of names, each with the changes that its dataset does not have
    yet."""
    things = {
        d["name"]: d
        for flow in visible(ctx, overview.status(ctx, branch))["dataflows"]
        for d in flow["datasets"]
    }
    items: list[SourceEntry] = []
    planned = visible(ctx, overview.plan(ctx, branch)["sources"])
    every = sorted(
        (source_change for source_change in planned if source_change["dataset"] in things),
        key=lambda source_change: source_change["dataset"],
    )
    page = [source_change for source_change in every if source_change["dataset"] > after][
        : SOURCES + 1
    ]
    for source in page[:SOURCES]:
        thing = things[source["dataset"]]
        is_lost = thing["state"] == "waiting" and "--accept-deletes" in (thing["reason"] or "")
        waits = (thing["reason"] or "").partition(";")[0] if is_lost else None
        items.append(
            {
                **source,
                "state": thing["state"],
                "waits": waits,
                "listing": thing.get("listing"),
                "lag": thing.get("lag"),
            }
        )
    following = items[-1]["dataset"] if len(page) > SOURCES else None
    return {"items": items, "total": len(every), "next": following}


def all_branches(ctx: Context, names: Collection[str]) -> BranchesPage:
    """Those of these names; main first."""
    every = [branches.branch_named(ctx, MAIN), *branches.listing(ctx)["items"]]
    return {"items": visible(ctx, [branch for branch in every if branch["name"] in names])}


def compared(
    ctx: Context, base: str, other: str, after: str | None, *, may_merge: bool
) -> ComparePage:
    """`may_merge`: the page offers a merge. Raises NotFound."""
    for name in (base, other):
        branches.branch_named(ctx, name)
    difference = visible(ctx, branch_diff.difference(ctx, base, other, after=after))
    if other == MAIN or base == other or not may_merge:
        return {"difference": difference, "merge": None, "refused": None}
    try:
        merge = visible(ctx, merging.merge_branch(ctx, other, base, dry_run=True))
        return {"difference": difference, "merge": merge, "refused": None}
    except NotFound:
        raise
    except HeadgateError as error:
        return {"difference": difference, "merge": None, "refused": words(ctx, str(error))}

"""Plans, datasets and errors as the JSON that the API and the command line show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Literal

from controlplane.core.compile import ordered_fold
from controlplane.core.compile.error_places import place_of_error
from controlplane.core.compile.nodes import Node, Sink, Slot
from controlplane.core.compile.warnings import notices
from controlplane.core.errors import Problem
from controlplane.core.explain import watermark_words
from controlplane.core.model.answers import (
    LEVELS,
    DatasetError,
    DatasetHold,
    DatasetStatus,
    DriverStatus,
    ErrorReport,
    InputMode,
    LeaderStatus,
    Level,
    PlanAnswer,
    PlanItem,
    ProblemDetail,
    SourceChange,
    TargetStatus,
    VolatileConstruct,
)
from controlplane.core.model.answers.plans import FailedPlan
from controlplane.core.model.driver_ends import ENDING
from controlplane.core.model.drivers import Driver
from controlplane.core.model.holds import Hold
from controlplane.core.model.leases import Lease
from controlplane.core.model.projections import Publication, Target
from controlplane.core.model.states import State
from controlplane.core.model.table_paths import table_path
from controlplane.core.plan import Decision, Item, Plan, Status, worst
from controlplane.core.plan.checks.check_sums import EXPECTATION_FAILED
from controlplane.core.review import NOTHING_CHANGED, Review
from controlplane.operations.context import Context
from controlplane.operations.inspect import review_views
from controlplane.operations.planning import costs
from controlplane.operations.planning.snapshot import StoreSnapshot
from dataplane.contract.results import TaskError

SHOWN_KEYS = 100


def instant(at: float) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def when(at: float | None) -> str | None:
    """As `instant`, of a time that may be None."""
    return None if at is None else instant(at)


def plan(
    ctx: Context,
    branch: str,
    plan: Plan,
    facts: StoreSnapshot,
    sources: list[SourceChange],
    edit: Review = NOTHING_CHANGED,
) -> PlanAnswer:
    """As far as the actor sees it. With the changes of the edit, for a plan of one."""
    plan = ctx.visible(plan)
    changes = [
        review_views.change(ctx, change) for change in edit.changes if ctx.sees(change.dataset)
    ]
    # Nothing of a failed dataset runs before it is tried again
    runnable = [decision for decision in plan.decisions if decision.status != "failed"]
    work = tuple(item for decision in runnable for item in decision.items)
    past_costs = costs.past_costs_of(facts, work)
    shown: PlanAnswer = {
        "branch": branch,
        "state": "work" if work else "nothing",
        "as_of": instant(facts.tx.now()),
        "sources": sources,
        "certain": sum(i.tasks for i in work if i.certain),
        "possible": sum(i.tasks for i in work if not i.certain),
        "items": [
            {**shown_item, "cost": costs.of_item(item, past_costs)}
            for item, shown_item in zip(work, items(ctx, work, facts), strict=True)
        ],
        "cost": costs.total(costs.of_item(item, past_costs) for item in work),
        "changes": changes,
        "breaks": [shown_item for change in changes for shown_item in change["breaks"]],
        "notices": [problem(n) for n in notices(facts.desired, {i.dataset for i in work})],
        "next": None,
    }
    if held := [d.dataset for d in plan.decisions if d.status == "held"]:
        shown["held"] = [{"dataset": name, **hold(facts.holds()[name])} for name in held]
    if failed := [d for d in plan.decisions if d.status == "failed"]:
        shown["failed"] = [_failed(decision) for decision in failed]
    flows = {decision.dataset.partition(".")[0] for decision in plan.decisions}
    if drivers := costs.at_rest(facts, flows):
        shown["drivers"] = drivers
    return shown


def _failed(decision: Decision) -> FailedPlan:
    error = decision.error
    remedy, command = "a retry", "retry"
    if error is not None and error["condition"] == EXPECTATION_FAILED:
        remedy, command = "other rows or an edit", "checks"
    elif error is None or error["kind"] == "user":
        remedy = "a retry or an edit"
    return {
        "dataset": decision.dataset,
        "sentence": f"{decision.dataset} failed and waits for {remedy}",
        "command": f"headgate {command} {decision.dataset}",
    }


def hold(held: Hold) -> DatasetHold:
    return {
        "branch": held.branch,
        "generation": held.generation,
        "actor": held.actor,
        "since": instant(held.at),
        "reason": held.reason,
    }


def problem(problem: Problem) -> ProblemDetail:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
    }


def items(ctx: Context, items: Iterable[Item], facts: StoreSnapshot) -> list[PlanItem]:
    """Many are about the same partitions, which are read once."""
    first: dict[object, list[str]] = {}
    for i in items:
        if i.keys.name not in first:
            first[i.keys.name] = list(islice(i.keys.read(facts.nodes), SHOWN_KEYS))
    return [_item(ctx, i, first[i.keys.name], facts) for i in items]


def _item(ctx: Context, item: Item, partitions: list[str], facts: StoreSnapshot) -> PlanItem:
    first = next((because for because in item.because if ctx.sees(because.dataset)), None)
    return {
        "dataset": item.dataset,
        "action": item.action,
        "cause": item.cause,
        "reason": item.reason or None,
        "certain": item.certain,
        "tasks": item.tasks,
        "count": item.count,
        "partitions": partitions,
        "bytes": item.size_bytes,
        "modes": modes(ctx, facts.desired.nodes[item.dataset]),
        "because": None
        if first is None
        else {"dataset": first.dataset, "from": _hex(first.before), "to": _hex(first.after)},
    }


def modes(ctx: Context, node: Node) -> dict[str, InputMode]:
    """How a transform reads each visible input, and its own output where it is a fold."""
    by_input = {slot.name: _mode(slot) for slot in node.slots if ctx.sees(slot.dataset)}
    if node.fold:
        by_input[node.fold.name] = {"mode": ordered_fold.MODE, "reason": ordered_fold.REASON}
    return by_input


def _mode(slot: Slot) -> InputMode:
    shown_mode: InputMode = {"mode": slot.shown_mode, "reason": slot.reason}
    if slot.cure:
        shown_mode["cure"] = slot.cure
    return shown_mode


def volatile(node: Node) -> list[VolatileConstruct]:
    """What in the text of a transform may give another result each time, with the place in that
    text."""
    if not node.is_transform:
        return []
    if node.query is not None:
        return [
            {"construct": v.construct, "file": None, "line": v.line} for v in node.query.volatile
        ]
    constructs = node.bundle.volatile if node.bundle else ()
    return [{"construct": v.construct, "file": v.file, "line": v.line} for v in constructs]


def _hex(root: bytes | None) -> str | None:
    return None if root is None else root.hex()


def dataset(
    decision: Decision,
    state: State | None,
    publication: Publication | None,
    lake: str,
    namespace: str,
    node: Node,
) -> DatasetStatus:
    table = (
        f"{lake.rstrip('/')}/{table_path(namespace, publication.branch, decision.dataset)}"
        if publication and publication.version >= 0
        else None
    )
    status: DatasetStatus = {
        "name": decision.dataset,
        "state": decision.status,
        "generation": state.generation if state else 0,
        "partitions": state.partitions if state else 0,
        "rows": state.rows if state else 0,
        "root": _hex(state.root) if state else None,
        "table": table,
        "published_generation": publication.generation if publication else 0,
        "checks": {level: names for level in LEVELS if (names := _named(decision, level))},
        "reason": decision.reason or None,
        "error": error(decision.error, node),
    }
    if decision.tasks_left:
        status["tasks_left"] = decision.tasks_left
    if (watermark := watermark_words.of_dataset(node, state)) is not None:
        status["watermark"] = watermark
    return status


def _named(decision: Decision, level: Level) -> list[str]:
    return [c["name"] for c in decision.checks if c["state"] == level]


def target(decision: Decision, target_state: Target | None, node: Sink) -> TargetStatus:
    return {
        "name": decision.dataset,
        "state": decision.status,
        "synced_generation": target_state.generation if target_state else 0,
        "target": node.path,
        "reason": decision.reason or None,
        "error": error(decision.error, node),
    }


def error(error: TaskError | None, node: Node, log: str | None = None) -> ErrorReport | None:
    """An error with its place mapped from the user's text to the blueprint's line."""
    if error is None:
        return None
    file, line, column = place_of_error(node, error)
    return {
        "code": "user-error" if error["kind"] == "user" else "infrastructure-error",
        "condition": error["condition"],
        "sqlstate": error["sqlstate"],
        "message": error["message"],
        "file": file,
        "line": line,
        "column": column,
        "log": log or error["detail"] or None,
        "attempt": error.get("attempt"),
    }


def errors(decisions: Iterable[Decision], nodes: Mapping[str, Node]) -> list[DatasetError]:
    """Every error of these decisions, for `errors` of a run."""
    entries: list[DatasetError] = []
    for decision in decisions:
        shown = error(decision.error, nodes[decision.dataset])
        if shown is not None:
            entries.append({"dataset": decision.dataset, **shown})
    return entries


def driver(driver: Driver) -> DriverStatus:
    shown: DriverStatus = {
        "id": driver.id,
        "pool": driver.pool,
        "kind": driver.kind,
        "state": _state(driver),
        "reason": driver.reason,
    }
    if driver.ended:
        shown["at"] = instant(driver.seen)
    return shown


def _state(driver: Driver) -> Literal["running", "waiting", "ending", "ended"]:
    if driver.ended:
        return "ended"
    if driver.reason == ENDING:
        return "ending"
    return "waiting" if driver.reason else "running"


def leader(lease: Lease | None, now: float) -> LeaderStatus | None:
    """The process that plans, launches and commits at present; None if there is none."""
    if lease is None or lease.until <= now:
        return None
    return {"holder": lease.holder, "epoch": lease.epoch, "since": instant(lease.since)}


def state_of(decisions: Iterable[Decision]) -> Status:
    return worst(decisions)

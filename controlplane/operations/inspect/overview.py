"""The present state: the plan, the status of dataflows, the effects of a run, events. Changes
nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TypeAlias, cast

from controlplane.core.compile.nodes import Node, Source
from controlplane.core.errors import NotFound
from controlplane.core.model.answers import (
    DataflowStatus,
    DatasetStatus,
    EventRecord,
    ExportStatus,
    ListingLateness,
    OfferedAs,
    PlanAnswer,
    RunCounts,
    RunSummary,
    StatusAnswer,
    TargetStatus,
)
from controlplane.core.model.answers.plans import BrokenDataflow
from controlplane.core.model.branches import MAIN
from controlplane.core.model.dataset_names import DATAFLOW_NAME, DATASET_NAME
from controlplane.core.model.events import Event
from controlplane.core.model.feeds import Feed
from controlplane.core.model.json_values import JsonObject
from controlplane.core.model.revisions import Revision
from controlplane.core.model.states import State
from controlplane.core.plan import Decision, Status
from controlplane.core.plan.plan_values import INTERNAL
from controlplane.core.rights import may, may_see_part
from controlplane.core.schema.contracts import breaches
from controlplane.operations.context import Context
from controlplane.operations.desired import branches
from controlplane.operations.export_cursor import behind
from controlplane.operations.failing_units import OF_EXPORT, STUCK_AFTER, FailingUnit, units_of
from controlplane.operations.inspect import (
    data_age,
    json_views,
    lateness,
    pinned_columns,
    plan_basis,
    source_changes,
    source_lag,
    standstill,
    work,
)
from controlplane.operations.planning import plan_listings
from controlplane.operations.planning.snapshot import StoreSnapshot, desired, plan_now, targeted
from controlplane.operations.projections.publish import is_published
from controlplane.operations.projections.seen_tables import SeenTables
from controlplane.operations.work import listings
from controlplane.ports.store import Tx
from dataplane.contract.results import infrastructure_error

ENDS_SHOWN = 10  # of drivers
FEW = 400  # datasets that are asked about by name; of more, all are read


Things: TypeAlias = tuple[list[DatasetStatus], list[TargetStatus]]
NOT_LISTED: Mapping[str, ListingLateness] = MappingProxyType({})


def plan(
    ctx: Context,
    branch: str,
    flows: Sequence[str] | None = None,
    unseen: Mapping[str, str] = source_changes.ALL_SEEN,
    looked: str = "",
    *,
    modes: bool = False,
) -> PlanAnswer:
    """What would run now, of these dataflows or of all that the actor sees whole. `unseen`: why a
    source was not listed for it. `looked`: the plan id under which sources were listed for it.
    `modes`: also how inputs are kept. Raises NotFound for one that is not declared."""
    if flows is None and ctx.principal.within:
        flows = _visible_flows(ctx, branch)
    with ctx.read_plan(branch, flows) as (full_plan, facts):
        _require_declared(facts.tx, branch, flows)
        nodes = facts.desired
        sources = (
            listings.sources(nodes, nodes.order if flows is None else nodes.scope(flows))
            if looked
            else []
        )
        facts.looked = plan_listings.of_plan(facts.tx, looked, sources)
        plan = facts.owned(full_plan)
        # A planner that is kept knows the shared listings alone
        if plan_listings.is_moved(facts.looked):
            plan, facts = plan_now(
                facts.tx, branch, flows, namespace=ctx.namespace, looked=facts.looked
            )
        answer = json_views.plan(
            ctx, branch, plan, facts, source_changes.of_plan(ctx, plan, facts, unseen)
        )
        answer["basis"] = plan_basis.of_plan(
            ctx, plan, facts, facts.tx.blueprints.revisions(branch), flows or (), looked=looked
        )
        if broken := not_compiled(ctx, facts, flows):
            answer["not_compiled"] = broken
        if modes:
            from controlplane.operations.inspect import kept_inputs

            answer["modes"] = kept_inputs.of_plan(ctx, plan, facts)
        return answer


def _visible_flows(ctx: Context, branch: str) -> list[str]:
    with ctx.read() as tx:
        return [
            name
            for name in sorted(tx.blueprints.revisions(branch))
            if may(ctx.principal, "view", dataflow=name)
        ]


def sources(
    ctx: Context, branch: str, flows: Sequence[str] | None = None, target: str | None = None
) -> list[Source]:
    """What a plan of these dataflows, or the status of a target, reads, with their upstream. Raises
    NotFound."""
    with ctx.read() as tx:
        _require_declared(tx, branch, flows)
        nodes = desired(tx, branch, namespace=ctx.namespace)
        chosen = (
            targeted(nodes, target)
            if target
            else nodes.order
            if flows is None
            else nodes.scope(flows)
        )
        return listings.sources(nodes, {*chosen, *nodes.graph.upstream(chosen)})


def _require_declared(tx: Tx, branch: str, flows: Sequence[str] | None) -> None:
    """Raises NotFound for a dataflow that is not declared."""
    declared = tx.blueprints.revisions(branch, flows) if flows else {}
    if missing := sorted({*(flows or ())} - {*declared}):
        raise NotFound(f"there is no dataflow {missing[0]} in branch {branch}")


def status(
    ctx: Context, branch: str, target: str | None = None, *, long: bool = False
) -> StatusAnswer:
    """State of every dataflow (or the target's) that the actor sees, its datasets and targets, the
    drivers, and the process that has the loop. `long`: also the work of their last commits, and the
    running work."""
    with ctx.read_plan(branch) as (plan, facts):
        tx = facts.tx
        chosen_names = {name for name in targeted(facts.desired, target) if ctx.sees(name)}
        chosen = as_known(ctx, tx, facts, (d for d in plan.decisions if d.dataset in chosen_names))
        revisions = tx.blueprints.revisions(branch)
        listed, own = _listed(tx, facts, chosen, revisions), branches.own_datasets(tx, branch)
        there = [name for name in sorted(revisions) if may_see_part(ctx.principal, name)]
        by_flow: dict[str, list[Decision]] = {} if target else {name: [] for name in there}
        for decision in chosen:
            by_flow.setdefault(decision.dataset.partition(".")[0], []).append(decision)
        flows = [
            _flow(
                revisions[name],
                _things(ctx, facts, decisions, own, listed),
                decisions,
                facts.desired.left_out.get(name),
            )
            for name, decisions in sorted(by_flow.items())
        ]
        if long:
            _add_times(tx, branch, flows)
        running = tx.drivers.running()
        drivers = [json_views.driver(d) for d in (*running, *tx.drivers.ends(ENDS_SHOWN))]
        lease = standstill.scheduler(ctx)
        leader = json_views.leader(lease, tx.now())
        still = standstill.of(tx, lease, running)
        export = _export(ctx, tx)
    is_broken = any("problem" in flow for flow in flows)
    state = "failed" if is_broken else json_views.state_of(chosen)
    answer: StatusAnswer = {
        "state": state,
        "dataflows": flows,
        "drivers": drivers,
        "leader": leader,
        "standstill": still,
    }
    return answer if export is None else {**answer, "openlineage": export}


def states(ctx: Context, branch: str) -> dict[str, Status]:
    """The state of every dataset and copy that the actor sees, as in the status."""
    with ctx.read_plan(branch) as (plan, facts):
        visible = (d for d in plan.decisions if ctx.sees(d.dataset))
        return {d.dataset: d.status for d in as_known(ctx, facts.tx, facts, visible)}


def _export(ctx: Context, tx: Tx) -> ExportStatus | None:
    """How far behind events of lineage are, where they are sent."""
    if not ctx.exports:
        return None
    failing_unit = ctx.failing_units.units.get(OF_EXPORT)
    return {
        "behind": behind(tx) or 0,
        "error": None if failing_unit is None else failing_unit.message,
    }


def _add_times(tx: Tx, branch: str, flows: Iterable[DataflowStatus]) -> None:
    """To each dataset and copy."""
    things = [thing for flow in flows for thing in (*flow["datasets"], *flow["targets"])]
    names = [thing["name"] for thing in things]
    last, running = work.of_last_commits(tx, branch, names), work.running(tx, names)
    for thing in things:
        name = thing["name"]
        thing["times"] = {"last": last[name], "running": running.get(name)}


def _flow(
    revision: Revision, things: Things, decisions: Iterable[Decision], fault: str | None
) -> DataflowStatus:
    """`fault`: why a stored dataflow does not compile."""
    datasets, targets = things
    name, branch, number = revision.dataflow, revision.branch, revision.number
    if fault is None:
        return {
            "name": name,
            "branch": branch,
            "revision": number,
            "state": json_views.state_of(decisions),
            "datasets": datasets,
            "targets": targets,
        }
    return {
        "name": name,
        "branch": branch,
        "revision": number,
        "state": "failed",
        "problem": _not_compiled(fault),
        "datasets": datasets,
        "targets": targets,
    }


def not_compiled(
    ctx: Context, facts: StoreSnapshot, flows: Collection[str] | None = None
) -> list[BrokenDataflow]:
    """Stored dataflows, or those of them, that do not compile and that the actor sees."""
    return [
        {"dataflow": name, "sentence": _not_compiled(fault)}
        for name, fault in sorted(facts.desired.left_out.items())
        if may_see_part(ctx.principal, name) and (flows is None or name in flows)
    ]


def _not_compiled(fault: str) -> str:
    return f"this dataflow does not compile and is left out until it is applied anew: {fault}"


def _listed(
    tx: Tx, facts: StoreSnapshot, decisions: Iterable[Decision], revisions: Mapping[str, Revision]
) -> dict[str, ListingLateness]:
    """How late the listings of sources are, by dataset."""
    # Feeds are followed, not listed
    sources = [node for node in _sources(facts, decisions) if node.feed is None]
    return lateness.of_sources(
        tx, facts.branch, sources, {name: r.at for name, r in revisions.items()}
    )


def _sources(facts: StoreSnapshot, decisions: Iterable[Decision]) -> list[Source]:
    nodes = (facts.desired.nodes[d.dataset] for d in decisions)
    return [node for node in nodes if node.is_source]


def _things(
    ctx: Context,
    facts: StoreSnapshot,
    decisions: Iterable[Decision],
    own: frozenset[str] | None,
    listed: Mapping[str, ListingLateness] = NOT_LISTED,
) -> Things:
    """`own`: datasets that a branch has states of its own of; None of main."""
    decisions = list(decisions)
    tables = SeenTables.of_branch(facts.tx, facts.branch)
    sources = _sources(facts, decisions)
    wider = pinned_columns.of_sources(facts.tx, facts.branch, sources)
    fresh, offers = data_age.of_snapshot(facts, (d.dataset for d in decisions)), offers_of(facts)
    lags = source_lag.of_sources(facts, (n for n in sources if n.dataset in listed))
    datasets: list[DatasetStatus] = []
    targets: list[TargetStatus] = []
    for decision in decisions:
        node = facts.desired.nodes[decision.dataset]
        if node.is_copy:
            targets.append(json_views.target(decision, facts.target(decision.dataset), node))
        else:
            state = facts.state(decision.dataset)
            shown = json_views.dataset(
                decision, state, tables.of(state), ctx.lake, ctx.namespace, node
            )
            if decision.dataset in listed:
                listing = facts.listing(node.listing) if node.is_source else None
                is_known = listing is not None and listing.error is None
                shown["as_of"] = listed[decision.dataset]["at"] if is_known else None
                shown["listing"] = listed[decision.dataset]
            if decision.dataset in lags:
                shown["lag"] = lags[decision.dataset]
            if decision.dataset in wider:
                shown["wider"] = wider[decision.dataset]
            if (held := facts.holds().get(decision.dataset)) is not None:
                shown["hold"] = json_views.hold(held)
            add_feeds(shown, node, state, offers)
            if decision.dataset in fresh:
                shown["freshness"] = fresh[decision.dataset]
            if own is not None:
                shown["own"] = decision.dataset in own
            datasets.append(shown)
    return datasets, targets


def add_feeds(
    shown: DatasetStatus, node: Node, state: State | None, offers: Mapping[str, list[Feed]]
) -> None:
    """The feed that a dataset follows, and those that offer it."""
    if node.feed is not None:
        shown["feed"] = str(node.feed)
    if shown["name"] in offers:
        shown["feeds"] = [_offered(feed, state) for feed in offers[shown["name"]]]


def offers_of(facts: StoreSnapshot) -> dict[str, list[Feed]]:
    """Feeds by their offered dataset. Branches offer nothing."""
    feeds: dict[str, list[Feed]] = {}
    for feed in facts.tx.feeds.all() if facts.branch == MAIN else ():
        feeds.setdefault(feed.dataset, []).append(feed)
    return feeds


def _offered(feed: Feed, state: State | None) -> OfferedAs:
    return {
        "name": feed.name,
        "breaches": list(breaches(feed.columns, state.schema)) if state else [],
    }


def summary(
    ctx: Context, branch: str, flows: Sequence[str], since_event: int, *, is_shared: bool = False
) -> RunSummary:
    """What a run did since an event, and how its dataflows stand (all, if none is named), as far as
    the actor sees it: the JSON of `run` without its times. `is_shared`: others are at work on other
    dataflows, which do not count. Raises NotFound."""
    with ctx.read_plan(branch, flows or None) as (plan, facts):
        tx = facts.tx
        _require_declared(tx, branch, flows)
        decisions = as_known(ctx, tx, facts, ctx.visible(plan).decisions)
        datasets, targets = _things(ctx, facts, decisions, branches.own_datasets(tx, branch))
        own = {d.dataset.partition(".")[0] for d in decisions}
        events = tx.events.count(
            branch, since_event, partial(_is_counted, ctx, own) if is_shared else None
        )
        return {
            "state": json_views.state_of(decisions),
            "tasks": _counts(events, decisions),
            "datasets": datasets,
            "targets": targets,
            "errors": json_views.errors(decisions, facts.desired.nodes),
        }


def _is_counted(ctx: Context, flows: Collection[str], name: str) -> bool:
    """Whether an event of this dataflow or dataset is of these dataflows, and visible."""
    return name.partition(".")[0] in flows and _sees_name(ctx, name)


def _counts(events: Mapping[str, int], decisions: Iterable[Decision]) -> RunCounts:
    """From how often each kind of event came; `failed` are datasets and copies that ended so, not
    tries that did."""
    return {
        "executed": events.get("task.executed", 0),
        "adopted": events.get("partitions.adopted", 0),
        "written": events.get("partitions.written", 0),
        "retried": events.get("task.retried", 0),
        "failed": sum(decision.status == "failed" for decision in decisions),
        "other": events.get("task.other", 0),
    }


def as_known(
    ctx: Context, tx: Tx, facts: StoreSnapshot, decisions: Iterable[Decision]
) -> list[Decision]:
    """The same decisions, with facts that a plan does not have: whether tables have followed, and
    failures of the loop."""
    decisions = list(decisions)
    names = [decision.dataset for decision in decisions]
    tables = SeenTables.of_branch(tx, facts.branch, names if len(names) <= FEW else None)
    failing = ctx.failing_units.units
    decided = (_with_table(d, facts.state(d.dataset), tables) for d in decisions)
    return [_with_failure(d, failing) for d in decided] if failing else list(decided)


def _with_failure(decision: Decision, failing: Mapping[str, FailingUnit]) -> Decision:
    """Show a unit that failed often in a row as failed until it succeeds: one or two failures may
    be temporary."""
    failing_unit = next(
        (failing[unit] for unit in units_of(decision.dataset) if unit in failing), None
    )
    if failing_unit is None or failing_unit.failures < STUCK_AFTER:
        return decision
    error = infrastructure_error(
        INTERNAL, f"{failing_unit.message} (failed {failing_unit.failures} times in a row)"
    )
    return replace(
        decision,
        status="failed",
        reason="it is planned, and that failed; it is tried again",
        error=error,
    )


def _with_table(decision: Decision, state: State | None, tables: SeenTables) -> Decision:
    if (
        decision.status not in ("up_to_date", "held")
        or state is None
        or not tables.are_to_show(state)
    ):
        return decision
    publication = tables.of(state)
    if is_published(state, publication):
        return decision
    if publication is None or publication.error is None:
        if decision.status == "held":
            return replace(decision, reason=f"{decision.reason}; its table has not followed yet")
        return replace(decision, status="stale", reason="its table has not followed yet")
    error = infrastructure_error("cannot-publish", publication.error)
    return replace(decision, status="failed", reason="its table could not follow", error=error)


def newest_event(ctx: Context) -> int:
    """The id of the newest event of all branches; 0 if there is none."""
    with ctx.read() as tx:
        return tx.events.last()


def events(ctx: Context, branch: str | None, after: int, limit: int = 500) -> list[EventRecord]:
    """Events of a branch and of no branch; or all."""
    with ctx.read() as tx:
        return [_event(e) for e in tx.events.newer(branch, after, limit)]


def is_visible(ctx: Context, event: EventRecord) -> bool:
    """Whether the actor sees the branches that an event names, and its dataflow or dataset."""
    if event["kind"].startswith("branch."):
        names = (event["dataset"], cast("JsonObject", event).get("from", MAIN))
        return all(name == MAIN or may(ctx.principal, "view", branch=str(name)) for name in names)
    return _sees_name(ctx, event["dataset"])


def _sees_name(ctx: Context, name: str) -> bool:
    """Whether the actor sees a dataset, or a part of a dataflow. Other names are no secret."""
    if re.fullmatch(DATASET_NAME, name):
        return ctx.sees(name)
    return not re.fullmatch(DATAFLOW_NAME, name) or may_see_part(ctx.principal, name)


def _event(event: Event) -> EventRecord:
    record: EventRecord = {
        "id": event.id,
        "at": json_views.instant(event.at),
        "branch": event.branch,
        "kind": event.kind,
        "dataset": event.dataset,
        "n": event.n,
    }
    return cast("EventRecord", {**record, **_fields(event)})  # each kind has fields of its own


def _fields(event: Event) -> Mapping[str, object]:
    """The fields of an event. An older release stored the kind of an ended driver as `kind`, the
    name of the event's own kind."""
    if "kind" not in event.body:
        return event.body
    return {
        ("driver_kind" if name == "kind" else name): value for name, value in event.body.items()
    }

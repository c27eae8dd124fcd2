"""Looking at things: plan, status, datasets, partitions, history, causes, records, events. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from controlplane.core import explain, tree
from controlplane.core.compile.checks import record_key
from controlplane.core.compile.nodes import Sink, Source
from controlplane.core.errors import NotFound
from controlplane.core.model.driver_ends import ENDING
from controlplane.core.model.leases import LOOP
from controlplane.core.model.projections import Publication
from controlplane.core.model.revisions import Revision
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import Compute, Decision, Item, Learn, Plan, RunChecks, Step, Sync
from controlplane.core.plan.values import INTERNAL
from controlplane.operations.context import Context
from controlplane.operations.inspect import lateness, views
from controlplane.operations.planning.snapshot import StoreSnapshot, targeted
from controlplane.operations.projections.publish import is_published
from controlplane.operations.troubles import STUCK_AFTER, Trouble, of_dataset, of_listing
from controlplane.ports.store import Tx
from dataplane.contract import Json, Schema, infrastructure_error

COUNTERS = {
    "executed": "task.executed",
    "adopted": "partitions.adopted",
    "written": "partitions.written",
    "retried": "task.retried",
    "failed": "task.failed",
    "other": "task.other",
}


ENDS_SHOWN = 10  # of drivers
STATES_A_TIME = 50
NOT_LISTED: Mapping[str, Json] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Records:
    """Committed files of one generation, relative to the lake, in key order."""

    schema: Schema
    files: tuple[str, ...]
    rows: int
    generation: int


def plan(ctx: Context, branch: str, flows: Sequence[str] | None = None) -> Json:
    """What would run now, of these dataflows or of all. Raises NotFound for one that is not declared."""
    with ctx.looking(branch, flows) as (plan, facts):
        known = facts.tx.revisions(branch, flows) if flows else {}
        if missing := sorted({*(flows or ())} - {*known}):
            raise NotFound(f"there is no dataflow {missing[0]} in branch {branch}")
        return views.plan(branch, plan, facts)


def status(ctx: Context, branch: str, target: str | None = None) -> Json:
    """State of every dataflow (or the target's), its datasets and targets, the drivers, and who has the loop."""
    with ctx.looking(branch) as (plan, facts):
        tx = facts.tx
        wanted = set(targeted(facts.desired, target))
        chosen = _as_known(ctx, tx, facts, (d for d in plan.decisions if d.dataset in wanted))
        revisions = tx.revisions(branch)
        listed = _listed(tx, facts, chosen, revisions)
        by_flow: dict[str, list[Decision]] = {} if target else {name: [] for name in sorted(revisions)}
        for decision in chosen:
            by_flow.setdefault(decision.dataset.partition(".")[0], []).append(decision)
        flows = [
            {
                "name": name,
                "branch": branch,
                "revision": revisions[name].number,
                "state": "failed" if name in facts.desired.left_out else views.state_of(decisions),
                **_problem(facts.desired.left_out.get(name)),
                **_parts(ctx, tx, facts, decisions, listed),
            }
            for name, decisions in sorted(by_flow.items())
        ]
        drivers = [views.driver(d) for d in (*tx.drivers(), *tx.ends(ENDS_SHOWN))]
        leader = views.leader(tx.lease(LOOP), tx.now())
    is_broken = any("problem" in flow for flow in flows)
    state = "failed" if is_broken else views.state_of(chosen)
    return {"state": state, "dataflows": flows, "drivers": drivers, "leader": leader}


def _problem(reason: str | None) -> Json:
    """Of a stored dataflow that does not compile: nothing of it is computed until it is applied anew."""
    if reason is None:
        return {}
    return {"problem": f"this dataflow does not compile and is left out until it is applied anew: {reason}"}


def _listed(
    tx: Tx, facts: StoreSnapshot, decisions: Iterable[Decision], revisions: Mapping[str, Revision]
) -> dict[str, Json]:
    """How late the listings of sources are, by dataset."""
    sources = [node for d in decisions if isinstance(node := facts.desired.nodes[d.dataset], Source)]
    return lateness.of_sources(tx, facts.branch, sources, {name: r.at for name, r in revisions.items()})


def _parts(
    ctx: Context, tx: Tx, facts: StoreSnapshot, decisions: Iterable[Decision], listed: Mapping[str, Json] = NOT_LISTED
) -> Json:
    publications = tx.publications(facts.branch)
    datasets, targets = [], []
    for decision in decisions:
        node = facts.desired.nodes[decision.dataset]
        if isinstance(node, Sink):
            targets.append(views.target(decision, facts.target(decision.dataset), node))
        else:
            state, published = facts.state(decision.dataset), publications.get(decision.dataset)
            shown = views.dataset(decision, state, published, ctx.lake, ctx.namespace, node)
            late = listed.get(decision.dataset)
            datasets.append(shown if late is None else {**shown, "listing": late})
    return {"datasets": datasets, "targets": targets}


def summary(ctx: Context, branch: str, flows: Sequence[str], since_event: int) -> Json:
    """What a run did since an event, and how its dataflows stand: the JSON of `run` without its times."""
    with ctx.looking(branch, flows) as (plan, facts):
        tx = facts.tx
        decisions = _as_known(ctx, tx, facts, plan.decisions)
        counts = tx.count_events(since_event)
        return {
            "state": views.state_of(decisions),
            "tasks": {name: counts.get(kind, 0) for name, kind in COUNTERS.items()},
            **_parts(ctx, tx, facts, decisions),
            "errors": views.problems(decisions, facts.desired.nodes),
        }


def _as_known(ctx: Context, tx: Tx, facts: StoreSnapshot, decisions: Iterable[Decision]) -> list[Decision]:
    """The same decisions, with what a plan does not know: whether tables have followed, and what the loop failed at."""
    published = tx.publications(facts.branch)
    failing = ctx.troubles.units
    known = (_with_table(d, facts.state(d.dataset), published.get(d.dataset)) for d in decisions)
    return [_with_trouble(d, failing) for d in known] if failing else list(known)


def _with_trouble(decision: Decision, failing: Mapping[str, Trouble]) -> Decision:
    """What failed so often in a row is shown as failed until it succeeds: once or twice may be a moment's trouble."""
    trouble = failing.get(of_dataset(decision.dataset)) or failing.get(of_listing(decision.dataset))
    if trouble is None or trouble.failures < STUCK_AFTER:
        return decision
    error = infrastructure_error(INTERNAL, f"{trouble.message} (failed {trouble.failures} times in a row)")
    return replace(decision, status="failed", reason="it is planned, and that failed; it is tried again", error=error)


def _with_table(decision: Decision, state: State | None, publication: Publication | None) -> Decision:
    if decision.status != "up_to_date" or state is None or is_published(state, publication):
        return decision
    if publication is None or publication.error is None:
        return replace(decision, status="stale", reason="its table has not followed yet")
    error = infrastructure_error("cannot-publish", publication.error)
    return replace(decision, status="failed", reason="its table could not follow", error=error)


def _one(plan: Plan, branch: str, name: str) -> Decision:
    decision = plan.of(name)
    if decision is None:
        raise NotFound(f"there is no dataset {name} in branch {branch}")
    return decision


def dataset(ctx: Context, branch: str, name: str) -> Json:
    """State, schema, generation, totals and table of one dataset."""
    with ctx.looking(branch) as (plan, facts):
        tx, decision = facts.tx, _one(plan, branch, name)
        (decision,) = _as_known(ctx, tx, facts, [decision])
        node, state = facts.desired.nodes[name], facts.state(name)
        if isinstance(node, Sink):
            return views.target(decision, facts.target(name), node)
        published = tx.publications(branch, [name]).get(name)
        found = views.dataset(decision, state, published, ctx.lake, ctx.namespace, node)
        return {
            **found,
            "schema": state.schema if state else None,
            "description": node.component.description,
            "logic": node.logic.hex(),
            "modes": views.modes(node),
            "volatile": views.volatile(node),
        }


def _state(tx: Tx, branch: str, name: str, generation: int | None = None) -> State:
    if generation is None:
        state = tx.states(branch, [name]).get(name)
    else:
        states = tx.history(branch, name, 100_000)
        state = next((s for s in states if s.generation == generation), None)
    if state is None:
        what = "has no committed data yet" if generation is None else f"has no generation {generation}"
        raise NotFound(f"dataset {name} {what}")
    return state


def partitions(ctx: Context, branch: str, name: str, *, after: str | None, limit: int) -> Json:
    """A page of the committed partitions, in key order; `next` is the key to go on after."""
    with ctx.store.read(ctx.namespace) as tx:
        state = _state(tx, branch, name)
        entries = []
        for entry in tree.scan(tx, state.root, start=after or ""):
            if entry.key != after:
                entries.append(entry)
            if len(entries) > limit:
                break
        fragments = tx.fragments([e.fragment for e in entries])
        items = [
            {
                "partition": e.key,
                "rows": e.content.rows,
                "fragment": e.fragment.hex(),
                "bytes": sum(f["size"] for f in fragments[e.fragment].files) if e.fragment in fragments else None,
            }
            for e in entries[:limit]
        ]
    return {"items": items, "next": items[-1]["partition"] if len(entries) > limit else None}


def history(ctx: Context, branch: str, name: str, *, before: int | None, limit: int) -> Json:
    """Generations, newest first; states that changed nothing that readers see are left out. `next`: to go on before."""
    with ctx.looking(branch) as (plan, facts):
        states, is_all = _some_generations(facts.tx, branch, name, before, limit * 4 + 1)
        if not states:
            _one(plan, branch, name)
    firsts = {s.generation: s for s in states}  # the oldest state of each generation stays
    if not is_all:
        del firsts[states[-1].generation]  # it may go on
    shown = list(firsts.values())[:limit]
    items = [
        {
            "generation": s.generation,
            "at": views.when(s.at),
            "cause": s.cause,
            "revision": s.revision,
            "partitions": s.partitions,
            "rows": s.rows,
            "root": s.root.hex(),
        }
        for s in shown
    ]
    return {"items": items, "next": None if is_all and len(firsts) <= limit else shown[-1].seq}


def _some_generations(tx: Tx, branch: str, name: str, before: int | None, window: int) -> tuple[list[State], bool]:
    """States, newest first, with all of one generation among them; and whether they are all that there are."""
    states: list[State] = []
    while not states or states[0].generation == states[-1].generation:
        some = tx.history(branch, name, window, before)
        states += some
        if len(some) < window:
            return states, True
        before = some[-1].seq
    return states, False


def checks(ctx: Context, branch: str, name: str, generation: int | None = None) -> Json:
    """What is expected of a dataset's rows, and what was found in a generation (the newest by default). `rejected`: in
    rows that did not become one, because an expectation failed."""
    with ctx.looking(branch) as (plan, facts):
        tx, decision = facts.tx, _one(plan, branch, name)
        found = facts.state(name)
        number = generation if generation is not None else found.generation if found else 0
        if generation is not None and (found is None or not 0 < generation <= found.generation):
            raise NotFound(f"dataset {name} has no generation {generation}")
        key = record_key(branch, name, number)
        record = tx.memos([key]).get(key) or {}
    is_rejected = decision.status == "failed" and bool(decision.checks)
    return {
        "dataset": name,
        "state": decision.status,
        "generation": number,
        "items": [record[n] for n in sorted(record)],
        "rejected": list(decision.checks) if is_rejected and generation is None else [],
    }


def why(ctx: Context, branch: str, target: str, partition: str | None = None) -> Json:
    """The chain of causes of a dataset (or one partition): of the work that is left, else of its last generation."""
    with ctx.looking(branch) as (plan, facts):
        tx, decision = facts.tx, _one(plan, branch, target)
        (decision,) = _as_known(ctx, tx, facts, [decision])
        node, state = facts.desired.nodes[target], facts.state(target)
        task = _task(tx, branch, decision, partition)
        error = task.error if task and task.error else decision.error
        chain = explain.chain(plan, facts.desired, target, partition)
        past = explain.past(facts, partial(_kept, tx, branch), facts.desired, target, partition) if not chain else ()
        shown = node.source if isinstance(node, Sink) else target
        last = next((item for item in past if item.dataset == shown), None)
        if partition is not None and not chain and state is not None:
            _require_partition(tx, state, partition, task)
        return {
            "dataset": target,
            "partition": partition,
            "state": decision.status,
            "generation": state.generation if state else 0,
            "cause": chain[0].cause if chain else _cause(state, last),
            "reason": decision.reason
            or explain.of_fold(facts, facts.desired, target, partition)
            or explain.in_words(decision, last),
            "modes": views.modes(node),
            "volatile": views.volatile(node),
            "logic": None if isinstance(node, Sink) else node.logic.hex(),
            "because": views.items((*chain, *past), facts),
            "sources": explain.sources(facts, facts.desired, target, partition),
            "drivers": _in_trouble(tx, decision.step),
            "error": views.error(error, node),
        }


def _kept(tx: Tx, branch: str, name: str) -> Iterator[State]:
    """All states that are kept of a dataset, newest first."""
    before: int | None = None
    while some := tx.history(branch, name, STATES_A_TIME, before):
        yield from some
        before = some[-1].seq


def _cause(state: State | None, last: Item | None) -> str | None:
    """Of the present generation; where that is not known any more, of the last time that there was anything to do."""
    return None if state is None else last.cause if last else state.cause


def _in_trouble(tx: Tx, step: Step) -> list[Json]:
    """What keeps drivers from being there for tasks that wait, and what the last ones ended of."""
    if not isinstance(step, Compute | Learn | RunChecks | Sync):
        return []
    return [views.driver(d) for d in (*tx.drivers(), *tx.ends(ENDS_SHOWN)) if d.reason not in ("", ENDING)]


def _require_partition(tx: Tx, state: State, partition: str, task: Task | None) -> None:
    if task is None and partition not in tree.lookup(tx, state.root, [partition]):
        raise NotFound(f"dataset {state.dataset} has no partition {partition!r}")


def _task(tx: Tx, branch: str, decision: Decision, partition: str | None) -> Task | None:
    """The demanded task that tells most: the partition's, or the first that failed."""
    match decision.step:
        case Compute() | Learn() | RunChecks() | Sync():
            demanded = sorted(tx.demands(branch, decision.dataset).values(), key=lambda t: t.partition)
        case _:
            return None
    chosen = [t for t in demanded if partition is None or t.partition == partition]
    return next((t for t in chosen if t.error), next(iter(chosen), None))


def records(
    ctx: Context, branch: str, name: str, *, partition: str | None = None, generation: int | None = None
) -> Records:
    """The files of a committed generation, or of one partition in it. Raises NotFound."""
    with ctx.store.read(ctx.namespace) as tx:
        state = _state(tx, branch, name, generation)
        if partition is None:
            entries = list(tree.scan(tx, state.root))
        else:
            entries = list(tree.lookup(tx, state.root, [partition]).values())
            if not entries:
                raise NotFound(f"dataset {name} has no partition {partition!r}")
        fragments = tx.fragments({e.fragment for e in entries})
        files = tuple(f["path"] for e in entries for f in fragments[e.fragment].files)
        rows = sum(e.content.rows for e in entries)
    return Records(state.schema, files, rows, state.generation)


def events(ctx: Context, after: int, limit: int = 500) -> list[Json]:
    with ctx.store.read(ctx.namespace) as tx:
        return [
            {"id": e.id, "at": views.when(e.at), "kind": e.kind, "dataset": e.dataset, "n": e.n, **e.body}
            for e in tx.events(after, limit)
        ]

"""Why something will run, ran, or did not. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import dropwhile

from controlplane.core import tree
from controlplane.core.compile.nodes import Node
from controlplane.core.errors import CorruptNode, NotFound, error_text
from controlplane.core.explain import cause_sentences, upstream, watermark_words
from controlplane.core.explain.cause_tree import UNKNOWN, CauseNode, Explaining, nearest_first
from controlplane.core.explain.change_authors import Audit
from controlplane.core.explain.held_up import HeldUp, held_up
from controlplane.core.explain.steps import StateStep as Change
from controlplane.core.explain.steps import last_step
from controlplane.core.explain.stops import Stop, stops
from controlplane.core.model.addresses import Point
from controlplane.core.model.answers import (
    DriverStatus,
    SourceOrigin,
    WhyAnswer,
    WhyHeldUp,
    WhyNode,
    WhyStop,
)
from controlplane.core.model.answers.work import WorkSummary
from controlplane.core.model.driver_ends import ENDING
from controlplane.core.model.states import Cause, State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import Compute, Decision, Step, WorkStep
from controlplane.operations.context import Context
from controlplane.operations.inspect import data_age, json_views, work
from controlplane.operations.inspect.datasets import kept_states, one_of
from controlplane.operations.inspect.overview import ENDS_SHOWN, as_known
from controlplane.operations.inspect.source_changes import due_times
from controlplane.operations.inspect.source_lag import STREAMS
from controlplane.operations.inspect.time_travel import state_of
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.operations.upkeep import roll_up
from controlplane.operations.work.claims import MAX_TASKS
from controlplane.ports.queue import Candidates
from controlplane.ports.store import Tx

CHANGES_READ = 1_000  # audited ones, among which who did something is looked for


def _cause_tree(
    explaining: Explaining, target: str, partition: str | None
) -> tuple[CauseNode | None, str]:
    """The causes; or, where damage hides them, the error."""
    try:
        return explaining.of(target, partition), ""
    except CorruptNode as error:
        return None, error_text(error)


def why(
    ctx: Context, branch: str, target: str, partition: str | None = None, *, shows_all: bool = False
) -> WhyAnswer:
    """The causes of the work that is left on a dataset (or one partition), else of its last
    generation; and the obstacles to that work. `shows_all`: with inputs that did not change."""
    with ctx.read_plan(branch) as (plan, facts):
        tx, decision = facts.tx, one_of(ctx, plan, branch, target)
        decisions = {d.dataset: d for d in as_known(ctx, tx, facts, plan.decisions)}
        decision = decisions[target]
        node, state = facts.desired.nodes[target], facts.state(target)
        audit = Audit(tx.audit.changes(branch, CHANGES_READ), tx.blueprints.revisions(branch))
        states = partial(kept_states, tx, branch)
        explaining = Explaining(
            facts,
            facts.desired,
            decisions,
            states=states,
            audit=audit,
            now=tx.now(),
            shows_all=shows_all,
        )
        causes, damage = _cause_tree(explaining, target, partition)
        top = None if causes is None else _visible_part(ctx, causes)
        task = _task(tx, branch, decision, partition)
        error = task.error if task else None
        if error is None and (partition is None or task is None):  # else it is another partition's
            error = decision.error
        is_work = top is not None and top.is_pending
        if partition is not None and not is_work and state is not None:
            _require_partition(tx, state, partition, task, node)
        held = held_up(facts.desired, decisions, audit, target, tx.blueprints.paused(branch))
        if held is not None and not ctx.sees(held.dataset):
            held = None
        since = top.at if top and top.at and not is_work else None
        stopped = stops(explaining, target, since) if since else ()
        origins = upstream.sources(facts, facts.desired, target, partition)
        answer: WhyAnswer = {
            "dataset": target,
            "partition": partition,
            "state": decision.status,
            "generation": state.generation if state else 0,
            "cause": _cause(top, state),
            "sentence": _sentence(top, decision),
            "reason": decision.reason
            or damage
            or upstream.of_fold(facts, facts.desired, target, partition)
            or _up_to_date(top, node, state),
            "held_up": None if held is None else _held_up(held, decisions, facts.desired.nodes),
            "modes": json_views.modes(ctx, node),
            "volatile": json_views.volatile(node),
            "logic": None if node.is_copy else node.logic.hex(),
            "because": json_views.items(
                ctx, [i for n in nearest_first(top) for i in n.items], facts
            ),
            "tree": None if top is None else _node(ctx, top, facts),
            "stopped": [_stop(stop) for stop in stopped if ctx.sees(stop.dataset)],
            "sources": _with_due(
                facts, [origin for origin in origins if ctx.sees(origin["dataset"])]
            ),
            "drivers": _is_failing(tx, decision.step),
            "error": json_views.error(error, node),
            "work": _work(tx, branch, target, state, partition),
        }
        if (fresh := data_age.of_dataset(tx, branch, node, facts.desired, state)) is not None:
            answer["freshness"] = fresh
        if node.is_source and node.read.connector in STREAMS:
            answer["roll_up"] = roll_up.sentence(tx, ctx.namespace, node, ctx.sees)
        if not node.is_copy and (sentences := _resources(ctx, facts, node, decision.step)):
            answer["resources"] = "; ".join(sentences)
        return answer


def _resources(ctx: Context, facts: StoreSnapshot, node: Node, step: Step) -> list[str]:
    """What past attempts change of the drivers of its tasks, and of how many tasks they get."""
    sentences = []
    if (raised := facts.raised_size(facts.tx, node.maker)) is not None:
        sentences.append(
            f"its tasks count as {raised.size}, as one ran out of memory twice,"
            f" at last at {json_views.instant(raised.at)}"
        )
    if not isinstance(step, Compute) or not step.tasks:
        return sentences
    first = step.tasks[0]
    sizes_bytes = [task.size_bytes for task in step.tasks[:MAX_TASKS]]
    candidates = Candidates(node.maker, first.kind, first.job, sizes_bytes)
    limits = ctx.batch_sizes.limits(facts.tx, ctx.namespace, candidates)
    if limits.by_time is not None and limits.by_time < limits.by_bytes:
        sentences.append(
            f"a driver gets up to {limits.by_time} of its tasks at a time, as they take long"
        )
    return sentences


def _with_due(facts: StoreSnapshot, origins: Sequence[SourceOrigin]) -> list[SourceOrigin]:
    nodes = (facts.desired.nodes[origin["dataset"]] for origin in origins)
    sources = [node for node in nodes if node.is_source]
    listings = {
        node.listing: listing
        for node in sources
        if (listing := facts.listing(node.listing)) is not None
    }
    due = due_times(facts.tx, facts.branch, sources, listings)
    return [
        {**origin, "due": due[origin["dataset"]]} if origin["dataset"] in due else origin
        for origin in origins
    ]


def why_past(
    ctx: Context,
    branch: str,
    target: str,
    point: Point,
    partition: str | None = None,
    *,
    shows_all: bool = False,
) -> WhyAnswer:
    """The causes of an earlier generation (or one partition in it), and its code. Facts about the
    present alone are left out: pending work, modes, volatile inputs, source objects."""
    with ctx.read_plan(branch) as (plan, facts):
        tx, decision = facts.tx, one_of(ctx, plan, branch, target)
        state = state_of(tx, branch, target, point)
        node = facts.desired.nodes[target]
        assert node.has_rows  # which have no states
        if partition is not None:
            _require_partition(tx, state, partition, None, node)
        states = partial(kept_states, tx, branch)
        audit = Audit(tx.audit.changes(branch, CHANGES_READ), tx.blueprints.revisions(branch))
        explaining = Explaining(
            facts, facts.desired, {}, states=states, audit=audit, now=state.at, shows_all=shows_all
        )
        until = dropwhile(lambda s: s.seq > state.seq, states(target))
        step = last_step(facts.nodes, until, partition)
        keys = None if partition is None else (partition,)
        top = _visible_part(ctx, explaining.settled(node, step, keys)) if step else None
        return {
            "dataset": target,
            "partition": partition,
            "state": decision.status,
            "generation": state.generation,
            "at": json_views.instant(state.at),
            "cause": _cause(top, state),
            "sentence": cause_sentences.headline(top.roots) if top and top.roots else UNKNOWN,
            "reason": "",
            "held_up": None,
            "modes": {},
            "volatile": [],
            "logic": state.logic.hex(),
            "because": json_views.items(
                ctx, [i for n in nearest_first(top) for i in n.items], facts
            ),
            "tree": None if top is None else _node(ctx, top, facts),
            "stopped": [],
            "sources": [],
            "drivers": [],
            "error": None,
            "work": _past_work(tx, branch, state, step, partition),
        }


def _past_work(
    tx: Tx, branch: str, state: State, step: Change | None, partition: str | None
) -> WorkSummary | None:
    if partition is not None:
        return _work(tx, branch, state.dataset, state, partition)
    if step is None:
        return None
    states = [step.newer] if step.older is None else [step.newer, step.older]
    return work.of_states(tx, branch, state.dataset, [step.newer], states)[step.newer.seq]


def _work(
    tx: Tx, branch: str, target: str, state: State | None, partition: str | None
) -> WorkSummary | None:
    """What the last commit of the dataset took, or the attempt that made a partition of it."""
    if partition is None:
        return work.of_last_commits(tx, branch, [target])[target]
    entry = tree.lookup(tx.nodes, state.root, [partition]).get(partition) if state else None
    fragments = tx.traces.fragments([entry.fragment]) if entry else {}
    attempts = list(
        tx.past_attempts.find([fragment.attempt for fragment in fragments.values()]).values()
    )
    # A driver may have gone on to it from another dataset
    dataset = attempts[0].dataset if attempts else target
    return work.summary(attempts, tx.past_attempts.costs(branch, [dataset]).get(dataset))


def _sentence(top: CauseNode | None, decision: Decision) -> str:
    if top is not None and top.roots:
        return cause_sentences.headline(top.roots)
    if top is not None:
        return top.sentence
    return (
        "nothing that it reads has changed in the generations that are kept"
        if not decision.reason
        else ""
    )


def _up_to_date(top: CauseNode | None, node: Node, state: State | None) -> str:
    if top is None or top.is_pending:
        return ""
    words = f"it is up to date; last change: {cause_sentences.headline(top.roots)}"
    watermark = watermark_words.of_dataset(node, state)
    return words if watermark is None else f"{words}; {watermark['sentence']}"


def _node(ctx: Context, node: CauseNode, facts: StoreSnapshot) -> WhyNode:
    """A node with the first of its partitions that changed."""
    items = json_views.items(ctx, node.items, facts)
    return {
        "dataset": node.dataset,
        "cause": node.cause,
        "sentence": node.sentence,
        "pending": node.is_pending,
        "repeated": node.is_repeated,
        "generation": node.generation,
        "at": json_views.when(node.at),
        "count": sum(item["count"] for item in items),
        "partitions": [key for item in items for key in item["partitions"]][
            : json_views.SHOWN_KEYS
        ],
        "inputs": [_node(ctx, above, facts) for above in node.inputs],
    }


def _visible_part(ctx: Context, node: CauseNode) -> CauseNode:
    """The same without hidden inputs, and without those behind them."""
    inputs = (_visible_part(ctx, above) for above in node.inputs if ctx.sees(above.dataset))
    return replace(node, inputs=tuple(inputs))


def _stop(stop: Stop) -> WhyStop:
    return {"dataset": stop.dataset, "at": json_views.instant(stop.at), "sentence": stop.sentence}


def _held_up(
    held: HeldUp, decisions: Mapping[str, Decision], nodes: Mapping[str, Node]
) -> WhyHeldUp:
    decision = decisions[held.dataset]
    return {
        "dataset": held.dataset,
        "state": decision.status,
        "sentence": held.sentence,
        "at": json_views.when(held.at),
        "fix": held.fix,
        "commands": list(held.commands),
        "error": json_views.error(decision.error, nodes[held.dataset]),
    }


def _cause(top: CauseNode | None, state: State | None) -> Cause | None:
    """The cause of the present generation; where it is not kept, that of the last pass with
    work."""
    if top is not None:
        return top.cause
    return state.cause if state else None


def _is_failing(tx: Tx, step: Step) -> list[DriverStatus]:
    """Why waiting tasks have no drivers, and why the last drivers ended."""
    if not isinstance(step, WorkStep):
        return []
    return [
        json_views.driver(d)
        for d in (*tx.drivers.running(), *tx.drivers.ends(ENDS_SHOWN))
        if d.reason not in ("", ENDING)
    ]


def _require_partition(tx: Tx, state: State, partition: str, task: Task | None, node: Node) -> None:
    if task is not None or partition in tree.lookup(tx.nodes, state.root, [partition]):
        return
    message = f"dataset {state.dataset} has no partition {partition!r}"
    watermark = watermark_words.of_dataset(node, state) if node.is_transform else None
    if watermark is not None:
        message = f"{message}; {watermark['sentence']}"
    raise NotFound(message)


def _task(tx: Tx, branch: str, decision: Decision, partition: str | None) -> Task | None:
    """The most telling demanded task: the partition's, or the first that failed."""
    if not isinstance(decision.step, WorkStep):
        return None
    demanded = sorted(
        tx.queue.demands(branch, decision.dataset).values(), key=lambda t: t.partition
    )
    chosen = [t for t in demanded if partition is None or t.partition == partition]
    return next((t for t in chosen if t.error), next(iter(chosen), None))

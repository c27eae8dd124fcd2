"""Runs of a branch: the start of each, the datasets that it reached, the work that it took. Changes
nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from controlplane.core import runs
from controlplane.core.compile.nodes import Desired, Node, Source, Transform
from controlplane.core.errors import NotFound
from controlplane.core.explain import cause_sentences
from controlplane.core.explain.change_authors import Audit
from controlplane.core.model.answers.work import (
    PastRun,
    PastRunAnswer,
    PastRunsAnswer,
    PastRunTasks,
    RunCause,
    RunState,
    RunStep,
)
from controlplane.core.model.events import ADOPTED
from controlplane.core.model.past_attempts import Cost, PastAttempt
from controlplane.core.model.states import Cause, State, UnfinishedRun
from controlplane.core.model.tasks import Attempt
from controlplane.core.plan import Decision, Plan
from controlplane.core.rights import Principal, may, may_see_part
from controlplane.core.runs import PENDING, Output, Run, RunCommit
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views, tasks, work
from controlplane.operations.inspect.critical_path import critical_path
from controlplane.operations.inspect.overview import as_known
from controlplane.operations.inspect.run_progress import MOVING
from controlplane.operations.planning.snapshot import StoreSnapshot, targeted
from controlplane.ports.store import Tx

STATES_SHOWN = 40  # of each dataset
ATTEMPTS_SHOWN = 20_000
CHANGES_SHOWN = 1_000


REASONS: Mapping[Cause, str] = {
    "input": "the source of {dataset} changed",
    "logic": "the code of {dataset} changed",
    "schema": "the schema of an input of {dataset} changed",
    "missing": "{dataset} had never been computed",
    "removed": "partitions of {dataset} are gone at its source",
    "period": "{dataset} is volatile, and its period turned",
    "retry": "{dataset} was tried again",
    "forced": "an operator asked for {dataset} to be computed again (refresh --force)",
    "sync": "{dataset} was written anew",
    "lost": "files of {dataset} were lost, and made again",
    "rollback": "{dataset} was rolled back",
    "imported": "rows of {dataset} were imported",
    "resume": "the hold of {dataset} ended",
}


@dataclass(frozen=True, slots=True)
class RunEffects:
    """`exports`: the write components that it wrote."""

    tasks: PastRunTasks
    exports: list[str]


@dataclass(frozen=True, slots=True)
class Past:
    """The history of some datasets, and their present decisions."""

    states: Mapping[tuple[str, int], State]  # by dataset and `seq`
    before: Mapping[tuple[str, int], float]  # when the commit before it was
    attempts: Mapping[str, Sequence[PastAttempt]]
    adopted: Mapping[tuple[str, int], int]  # partitions by the commit that they entered with
    costs: Mapping[str, Cost]
    decisions: Mapping[str, Decision]
    copies: Mapping[str, Sequence[str]]  # dataset -> the write components that copy it
    audit: Audit  # its newest changes; none where actors are not needed
    now: float


def listing(ctx: Context, branch: str, target: str | None, limit: int) -> PastRunsAnswer:
    """The last runs that reached a dataflow, or any; the last ones first."""
    with ctx.read_plan(branch) as (plan, facts):
        past, visible_runs = _read(ctx, plan, facts, target)
    newest = sorted(visible_runs, key=lambda run: _began(run, past), reverse=True)
    return {"items": [_run(run, past) for run in newest[:limit]], "next": None}


def no_run(branch: str, id: str) -> NotFound:
    """That there is none, or none that may be seen."""
    return NotFound(
        f"there is no run {id} in branch {branch}, or it is too long ago: headgate runs"
    )


def past_run(ctx: Context, branch: str, id: str) -> PastRunAnswer:
    """A run with its steps and attempts. Raises NotFound."""
    flow = id.partition(".")[0]
    with ctx.read_plan(branch) as (plan, facts):
        past, visible_runs = _read(ctx, plan, facts, flow if _is_known(facts, flow) else None)
        under_way = list(facts.tx.queue.attempts().values())
    run = next((run for run in visible_runs if run.id == id), None)
    if run is None:
        raise no_run(branch, id)
    steps = _steps(run, past)
    attempts = sorted(_attempts_of(run, past), key=lambda a: (a.started_at, a.id))
    running = _running(steps, under_way)
    return {
        **_run(run, past),
        "steps": steps,
        "attempts": list(map(work.entry, attempts)),
        "running": [tasks.running(attempt) for attempt in running],
        "critical": _critical(facts.desired, attempts, running, past.now),
    }


def _running(steps: Sequence[RunStep], under_way: Iterable[Attempt]) -> list[Attempt]:
    """Attempts under way at datasets and copies that the run has not finished."""
    pending = {step["dataset"] for step in steps if step["state"] == "running"}
    chosen = [a for a in under_way if a.dataset in pending and a.kind not in work.UNSEEN]
    return sorted(chosen, key=lambda a: (a.at, a.id))


def _critical(
    desired: Desired, attempts: Iterable[PastAttempt], running: Iterable[Attempt], now: float
) -> list[str]:
    """The critical path. An attempt that runs ends now, as far as anyone knows."""
    times = [(a.dataset, a.ended_at) for a in attempts] + [(a.dataset, now) for a in running]
    ends: dict[str, float] = {}
    for name, ended in times:
        ends[name] = max(ended, ends.get(name, ended))
    return critical_path(ends, {name: _inputs(desired.nodes.get(name)) for name in ends})


def _inputs(node: Node | None) -> list[str]:
    """The datasets that a dataset or copy reads."""
    if node is None:
        return []
    return [node.source] if node.is_copy else [slot.dataset for slot in node.slots]


def _is_known(facts: StoreSnapshot, flow: str) -> bool:
    return any(name.partition(".")[0] == flow for name in facts.desired.order)


# --- reading ----------------------------------------------------------------------------------------


def _read(
    ctx: Context, plan: Plan, facts: StoreSnapshot, target: str | None
) -> tuple[Past, list[Run]]:
    """With all datasets that the target's runs may have reached."""
    tx, branch = facts.tx, facts.branch
    datasets = set(targeted(facts.desired, target))
    names = reach(facts.desired, datasets) if target else None
    states = tx.states.recent(branch, names, STATES_SHOWN)
    commits = runs.commits_of(states, force_times(tx, branch)) + list(
        _under_way(plan, facts, states, names)
    )
    order = {name: place for place, name in enumerate(facts.desired.order)}
    every = [run for run in runs.runs(commits, order) if target is None or run.datasets & datasets]
    visible_runs = [_visible_part(ctx, run) for run in every if sees_start(ctx.principal, run)]
    past = _past(ctx, facts, states, [run for run in visible_runs if run.commits], plan.decisions)
    return past, [run for run in visible_runs if run.commits]


def reach(desired: Desired, names: Iterable[str]) -> frozenset[str]:
    """All that runs of these datasets may have reached, with its inputs."""
    below = set(names) | desired.graph.downstream(names)
    return frozenset(below | desired.graph.upstream(below))


def sees_start(principal: Principal, run: Run) -> bool:
    """Whether the principal sees what the id and the reason of a run name."""
    is_of_seen = run.revision is None or may_see_part(principal, run.revision[0])
    names = {name for first in run.commits[:1] for name in (first.dataset, first.maker)}
    return is_of_seen and all(may(principal, "view", dataset=name) for name in names)


def _visible_part(ctx: Context, run: Run) -> Run:
    """As much of it as the actor sees: its numbers are of this part."""
    if not ctx.principal.within:
        return run
    commits = [commit for commit in run.commits if ctx.sees(commit.dataset)]
    return replace(run, commits=commits, datasets={commit.dataset for commit in commits})


def force_times(tx: Tx, branch: str) -> list[float]:
    """Times at which operators requested a forced recomputation."""
    changes = (c for c in tx.audit.changes(branch, CHANGES_SHOWN) if c.action == "refresh")
    return [c.at for c in changes if isinstance(c.after, dict) and c.after.get("force")]


def _under_way(
    plan: Plan,
    facts: StoreSnapshot,
    past_states: Mapping[str, Sequence[State]],
    names: Iterable[str] | None,
) -> Iterator[RunCommit]:
    """Work that has not come to a commit, or failed, as the next commits of its datasets."""
    chosen = None if names is None else set(names)
    moving = {d.dataset: d for d in plan.decisions if d.items and d.status in (*MOVING, "failed")}
    for name, decision in moving.items():
        node = facts.desired.nodes[name]
        if node.is_copy or (chosen is not None and name not in chosen):
            continue
        yield from _next_commits(decision, node, facts, past_states, moving.keys())


def _next_commits(
    decision: Decision,
    node: Source | Transform,
    facts: StoreSnapshot,
    past_states: Mapping[str, Sequence[State]],
    moving: Collection[str],
) -> Iterator[RunCommit]:
    """The commits to come: one of the inputs that the unfinished run reads, and one of those that
    arrived since."""
    name, state, unfinished = (
        decision.dataset,
        facts.state(decision.dataset),
        facts.unfinished(decision.dataset),
    )
    seq = state.seq + 1 if state else 1
    reads = [slot.dataset for slot in getattr(node, "slots", ())]
    newest = [(read, PENDING) for read in reads if read in moving]
    newest += [(read, read_state.root) for read in reads if (read_state := facts.state(read))]
    next_one = RunCommit(
        dataset=name,
        seq=seq,
        at=facts.tx.now(),
        cause=decision.items[0].cause,
        revision=node.revision,
        root=None,
        has_new_code=state is None or runs.is_new_code(node.lineage, node.revision, state),
        changed=(),
        inputs=tuple(newest) or _listed(node, facts),
    )
    first = _started_with(unfinished, node, past_states) if unfinished else []
    consumed = {(c.dataset, c.root) for c in state.inputs.values()} if state else set(newest)
    started = tuple(output for output in first if output not in consumed)
    since = tuple(output for output in newest if output not in consumed and output not in first)
    if started and since:
        yield replace(next_one, changed=started)
        yield replace(next_one, seq=seq + 1, changed=since, has_new_code=False)
        return
    yield replace(next_one, changed=started or since)


def _listed(node: Source | Transform, facts: StoreSnapshot) -> tuple[Output, ...]:
    """What the next commit of a source is made from; its quarantine's is made from the same."""
    listing = facts.listing(node.listing) if node.is_source else None
    return (("", PENDING if listing is None or listing.root is None else listing.root),)


def _started_with(
    unfinished: UnfinishedRun, node: Source | Transform, past_states: Mapping[str, Sequence[State]]
) -> list[Output]:
    """The outputs that a run under way reads."""
    read = {slot.name: slot.dataset for slot in getattr(node, "slots", ())}
    consumed = {(read[slot], seq) for slot, seq in unfinished.states.items() if slot in read}
    states = (state for name in read.values() for state in past_states.get(name, ()))
    return [
        (state.dataset, state.root) for state in states if (state.dataset, state.seq) in consumed
    ]


def counts(
    ctx: Context,
    facts: StoreSnapshot,
    past_states: Mapping[str, Sequence[State]],
    visible_runs: Sequence[Run],
) -> Callable[[Run], RunEffects]:
    """The counts of runs, from the states of their datasets: one query for all of them."""
    past = _past(ctx, facts, past_states, [_visible_part(ctx, run) for run in visible_runs], None)

    def of(run: Run) -> RunEffects:
        as_seen = _visible_part(ctx, run)
        exported = [copy for copy, written in _writes(as_seen, past) if written]
        return RunEffects(_tasks(as_seen, _attempts_of(as_seen, past), past, failed=0), exported)

    return of


def _past(
    ctx: Context,
    facts: StoreSnapshot,
    past_states: Mapping[str, Sequence[State]],
    visible_runs: Sequence[Run],
    decisions: Sequence[Decision] | None,
) -> Past:
    """`decisions`: None where neither decisions, costs nor actors are needed."""
    tx, branch = facts.tx, facts.branch
    copies: dict[str, list[str]] = {}
    for name, node in facts.desired.nodes.items():
        if node.is_copy and ctx.sees(name):
            copies.setdefault(node.source, []).append(name)
    names = {name for run in visible_runs for name in run.datasets}
    names |= {copy for name in names for copy in copies.get(name, ())}
    pairs = [(newer, older) for states in past_states.values() for newer, older in pairwise(states)]
    before = {(newer.dataset, newer.seq): older.at for newer, older in pairs}
    earliest = min(
        (before.get((c.dataset, c.seq), 0.0) for run in visible_runs for c in run.commits),
        default=0.0,
    )
    attempts: dict[str, list[PastAttempt]] = {}
    for attempt in tx.past_attempts.newest(
        branch, names, ended=(earliest, tx.now()), limit=ATTEMPTS_SHOWN
    ):
        attempts.setdefault(attempt.dataset, []).append(attempt)
    return Past(
        states={(s.dataset, s.seq): s for states in past_states.values() for s in states},
        before=before,
        attempts={name: work.own(theirs) for name, theirs in attempts.items()},
        adopted=_adopted(tx, branch, earliest, past_states),
        audit=Audit() if decisions is None else _newest_audit(tx, branch),
        costs={} if decisions is None else tx.past_attempts.costs(branch, names),
        decisions=_decisions(ctx, facts, visible_runs, copies, decisions or ()),
        copies=copies,
        now=tx.now(),
    )


def _decisions(
    ctx: Context,
    facts: StoreSnapshot,
    visible_runs: Sequence[Run],
    copies: Mapping[str, Sequence[str]],
    decisions: Sequence[Decision],
) -> dict[str, Decision]:
    """Those that the runs show, by dataset: of steps that have no state yet, and of copies."""
    shown = {c.dataset for run in visible_runs for c in run.commits if c.root is None}
    shown |= {
        copy for run in visible_runs for name in run.datasets for copy in copies.get(name, ())
    }
    pending = [decision for decision in decisions if decision.dataset in shown]
    return {d.dataset: d for d in as_known(ctx, facts.tx, facts, pending)}


def _newest_audit(tx: Tx, branch: str) -> Audit:
    return Audit(tx.audit.changes(branch, CHANGES_SHOWN), tx.blueprints.revisions(branch))


def _adopted(
    tx: Tx, branch: str, since: float, past_states: Mapping[str, Sequence[State]]
) -> dict[tuple[str, int], int]:
    """Adopted partitions, by the commit that they entered with: the next commit that has an event.
    The event of a commit is written in its own transaction, a moment after the time of its plan."""
    adoptions = tx.events.of_kind(branch, ADOPTED, since)
    if not adoptions:  # the commits of many datasets are not read for nothing
        return {}
    commit_times: dict[str, list[float]] = {}
    for event in tx.events.of_kind(branch, "dataset.committed", since):
        commit_times.setdefault(event.dataset, []).append(event.at)
    adopted: dict[tuple[str, int], int] = {}
    for event in adoptions:
        at = next((at for at in commit_times.get(event.dataset, ()) if at >= event.at), math.inf)
        states = past_states.get(event.dataset, ())
        committed = next((state.seq for state in states if state.at <= at), 0)
        seq = committed if at < math.inf else committed + 1
        adopted[event.dataset, seq] = adopted.get((event.dataset, seq), 0) + event.n
    return adopted


# --- one run ----------------------------------------------------------------------------------------


def _run(run: Run, past: Past) -> PastRun:
    steps = _steps(run, past)
    first = run.commits[0]
    state = _worst(step["state"] for step in steps)
    attempts = _attempts_of(run, past)
    began = _began(run, past)
    ended = max(
        [c.at for c in run.commits if c.root is not None] + [a.ended_at for a in attempts],
        default=past.now,
    )
    until = past.now if state == "running" else ended
    return {
        "id": run.id,
        "state": state,
        "cause": first.cause,
        "reason": reason(run),
        "causes": causes(run),
        "actor": actor_of(run, past.audit),
        "began": json_views.instant(began),
        "ended": None if state == "running" else json_views.instant(ended),
        "seconds": round(until - began, 3),
        "datasets": list(dict.fromkeys(step["dataset"] for step in steps)),
        "tasks": _tasks(
            run, attempts, past, failed=sum(step["state"] == "failed" for step in steps)
        ),
        "slow": [step["dataset"] for step in steps if step["work"] and step["work"]["slow"]],
    }


def _began(run: Run, past: Past) -> float:
    return min([run.commits[0].at, *(a.started_at for a in _attempts_of(run, past))])


def reason(run: Run) -> str:
    """What started it, in a sentence."""
    return cause_sentences.headline([cause["reason"] for cause in causes(run)])


def causes(run: Run) -> list[RunCause]:
    """What started it, each once: a source that changed, an edit, an operator's act."""
    by_reason: dict[str, RunCause] = {}
    for commit in run.started_by or run.commits[:1]:
        cause: RunCause = {
            "dataset": commit.maker,
            "cause": commit.cause,
            "reason": _reason(commit),
        }
        by_reason.setdefault(cause["reason"], cause)
    return list(by_reason.values())


def _reason(commit: RunCommit) -> str:
    if commit.has_new_code:
        flow, number = commit.code
        return f"revision {number} of {flow}"
    if commit.follows:
        return f"{commit.maker} followed an earlier change of what it reads"
    return REASONS[commit.cause].format(dataset=commit.maker)


def actor_of(run: Run, audit: Audit) -> str | None:
    """The actor of the request that started a run, if there is a record of one."""
    first = run.commits[0]
    if run.revision is not None:
        return audit.applied_by(*run.revision) or None
    change = None
    if first.cause == "forced":
        change = audit.forced(first.dataset, first.at)
    if first.cause == "imported":
        change = audit.imported(first.dataset, first.at)
    if first.cause == "rollback":
        change = audit.rolled_back(first.dataset, first.at)
    return None if change is None else change.actor


def _tasks(run: Run, attempts: Sequence[PastAttempt], past: Past, *, failed: int) -> PastRunTasks:
    return {
        "executed": sum(
            a.done for a in attempts if a.kind in ("parse", "slice", "transform", "index")
        ),
        "adopted": sum(past.adopted.get((c.dataset, c.seq), 0) for c in run.commits),
        "written": sum(a.done for a in attempts if a.kind == "write"),
        "retried": sum(a.outcome == "retried" for a in attempts),
        "failed": failed,
    }


def _worst(states: Iterable[RunState]) -> RunState:
    run_states = set(states)
    if "running" in run_states:
        return "running"
    return "failed" if "failed" in run_states else "done"


# --- its steps --------------------------------------------------------------------------------------


def _steps(run: Run, past: Past) -> list[RunStep]:
    """Datasets in the order of their commits, each followed by copies of it that were written."""
    steps: list[RunStep] = []
    for commit in run.commits:
        steps.append(_step(commit, past))
        for copy in past.copies.get(commit.dataset, ()):
            written = _written(commit, copy, past)
            if written:
                steps.append(_copied(copy, written, past))
    return steps


def _step(commit: RunCommit, past: Past) -> RunStep:
    state = past.states.get((commit.dataset, commit.seq)) if commit.root is not None else None
    return {
        "dataset": commit.dataset,
        "state": "done" if state else _pending(past.decisions.get(commit.dataset)),
        "cause": commit.cause,
        "generation": state.generation if state else None,
        "at": json_views.instant(state.at) if state else None,
        "partitions": state.partitions if state else None,
        "rows": state.rows if state else None,
        "adopted": past.adopted.get((commit.dataset, commit.seq), 0),
        "work": work.summary(_made_by(commit, past), past.costs.get(commit.dataset)),
    }


def _copied(copy: str, written: Sequence[PastAttempt], past: Past) -> RunStep:
    decision = past.decisions.get(copy)
    return {
        "dataset": copy,
        "state": _pending(decision)
        if decision and decision.status in (*MOVING, "failed")
        else "done",
        "cause": None,
        "generation": None,
        "at": json_views.instant(max(a.ended_at for a in written)),
        "partitions": None,
        "rows": None,
        "adopted": 0,
        "work": work.summary(written, past.costs.get(copy)),
    }


def _pending(decision: Decision | None) -> RunState:
    return "failed" if decision is not None and decision.status == "failed" else "running"


def _attempts_of(run: Run, past: Past) -> list[PastAttempt]:
    """Attempts at the datasets of a run, and at copies of them."""
    made = [attempt for commit in run.commits for attempt in _made_by(commit, past)]
    return made + [attempt for _, written in _writes(run, past) for attempt in written]


def _writes(run: Run, past: Past) -> list[tuple[str, list[PastAttempt]]]:
    """Copies of the datasets of a run, with the attempts to write them after each commit."""
    return [
        (copy, _written(commit, copy, past))
        for commit in run.commits
        for copy in past.copies.get(commit.dataset, ())
    ]


def _made_by(commit: RunCommit, past: Past) -> list[PastAttempt]:
    """Attempts at the dataset that ended after the commit before, and not after this one."""
    return [
        a for a in past.attempts.get(commit.dataset, ()) if _is_within(a.ended_at, commit, past)
    ]


def _is_within(at: float, commit: RunCommit, past: Past) -> bool:
    since = past.before.get((commit.dataset, commit.seq))
    if since is None and commit.root is None:  # of work under way: since the newest commit
        since = max(
            (s.at for (name, _), s in past.states.items() if name == commit.dataset), default=None
        )
    return (since is None or since < at) and at <= commit.at


def _written(commit: RunCommit, copy: str, past: Past) -> list[PastAttempt]:
    """Attempts to write a copy that were requested after this commit, and before the next one."""
    following = past.states.get((commit.dataset, commit.seq + 1))
    until = following.at if following else past.now
    if commit.root is None:
        return []
    return [a for a in past.attempts.get(copy, ()) if commit.at <= a.queued_at < until]

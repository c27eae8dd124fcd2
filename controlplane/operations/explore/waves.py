"""Waves of commits: the effects of one late file, edit or request, and the datasets that it left
alone. Changes nothing.

Commits are grouped by their inputs, not by time (`core.runs`). Counts are those of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

from controlplane.core import runs, tree
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import CorruptNode, NotFound
from controlplane.core.explain.change_authors import Audit
from controlplane.core.model.answers.explore import (
    Wave,
    WaveAnswer,
    WaveCommit,
    WaveKey,
    WavesAnswer,
)
from controlplane.core.model.states import Cause, State
from controlplane.core.rights import Principal, may
from controlplane.core.runs import Run
from controlplane.core.tree import NodeStore
from controlplane.operations.context import Context
from controlplane.operations.explore.change_counts import ChangeCounting, kind_of
from controlplane.operations.explore.counted import CountedNodes
from controlplane.operations.explore.past import PastStates
from controlplane.operations.inspect import json_views
from controlplane.operations.inspect.causes import CHANGES_READ
from controlplane.operations.inspect.past_runs import (
    RunEffects,
    actor_of,
    causes,
    counts,
    force_times,
    reach,
    reason,
    sees_start,
)
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.ports.store import Tx

SHOWN = 20
SHOWN_KEYS = 3  # of a source
OF_SOURCES: frozenset[Cause] = frozenset({"input", "removed"})


@dataclass(frozen=True, slots=True)
class _World:
    """`own`: the requested datasets. `with_upstream`: those and all their upstream. `by_flow`:
    `own` by dataflow. `newest`: the newest state of each dataset of the branch. `principal`: counts
    include only the datasets that it sees."""

    tx: Tx
    branch: str
    nodes: NodeStore
    desired: Desired
    newest: Mapping[str, State]
    own: frozenset[str]
    with_upstream: frozenset[str]
    by_flow: Mapping[str, frozenset[str]]
    principal: Principal

    @classmethod
    def of(cls, facts: StoreSnapshot, own: frozenset[str], principal: Principal) -> _World:
        nodes = facts.desired
        reached = frozenset(
            n for n in reach(nodes, own) if n not in nodes.nodes or nodes.nodes[n].has_rows
        )
        by_flow = {
            flow: frozenset(names) for flow, names in groupby(sorted(own, key=_flow), key=_flow)
        }
        return cls(
            facts.tx,
            facts.branch,
            facts.nodes,
            nodes,
            facts.states,
            own=own,
            with_upstream=reached,
            by_flow=by_flow,
            principal=principal,
        )

    def sees(self, name: str) -> bool:
        return may(self.principal, "view", dataset=name)

    def past(self) -> PastStates:
        there = {
            name: state
            for name in self.with_upstream
            if (state := self.newest.get(name)) is not None
        }
        return PastStates.of(self.tx, self.branch, there)


def waves(
    ctx: Context, branch: str, dataflow: str | None, *, before: str | None, limit: int
) -> WavesAnswer:
    """Those that reached a dataflow, or any, the last ones first; that began before the wave
    `before`. Raises NotFound for a dataflow or wave that is not known."""
    with ctx.read_plan(branch) as (_, facts):
        tx, world = facts.tx, _world(ctx, facts, dataflow)
        past = world.past()
        all_runs = _until(world, past, lambda some: len(_page(some, before)) > limit)
        if before is not None and not any(run.id == before for run in all_runs):
            raise no_wave(branch, before)
        page = _page(all_runs, before)
        audit = Audit(tx.audit.changes(branch, CHANGES_READ), tx.blueprints.revisions(branch))
        of_run = counts(ctx, facts, past.states, page[:limit])
        items = [_wave(run, world, past, audit, of_run(run)) for run in page[:limit]]
    return {
        "dataflow": dataflow,
        "items": items,
        "next": page[limit - 1].id if len(page) > limit else None,
    }


def wave(ctx: Context, branch: str, id: str) -> WaveAnswer:
    """One wave with its commits. Raises NotFound."""
    flow = id.partition(".")[0]
    with ctx.read_plan(branch) as (_, facts):
        tx = facts.tx
        if not tx.blueprints.revisions(branch, [flow]):
            raise no_wave(branch, id)
        world = _downstream(_world(ctx, facts, flow), facts)
        past = world.past()
        all_runs = _until(world, past, lambda some: any(run.id == id for run in some))
        run = next((run for run in all_runs if run.id == id), None)
        if run is None:
            raise no_wave(branch, id)
        audit = Audit(tx.audit.changes(branch, CHANGES_READ), tx.blueprints.revisions(branch))
        counting = ChangeCounting(CountedNodes(tx.nodes))
        steps = [
            _commit(state, past, counting)
            for state in _states(run, past)
            if world.sees(state.dataset)
        ]
        beside = _beside(run, world)
        untouched = [
            name
            for name in world.desired.order
            if name in beside and _is_left_alone(name, run, past)
        ]
        shown_wave = _wave(run, world, past, audit, counts(ctx, facts, past.states, [run])(run))
        return {**shown_wave, "steps": steps, "untouched": untouched}


def no_wave(branch: str, id: str) -> NotFound:
    return NotFound(
        f"there is no wave {id} in branch {branch}, or it is too long ago: headgate waves"
    )


# --- reading --------------------------------------------------------------------------------------


def _world(ctx: Context, facts: StoreSnapshot, dataflow: str | None) -> _World:
    if dataflow is not None and not facts.tx.blueprints.revisions(facts.branch, [dataflow]):
        raise NotFound(f"there is no dataflow {dataflow} in branch {facts.branch}")
    nodes = facts.desired
    made = (name for name in nodes.order if nodes.nodes[name].has_rows)
    own = frozenset(name for name in made if dataflow is None or _flow(name) == dataflow)
    return _World.of(facts, own, ctx.principal)


def _downstream(world: _World, facts: StoreSnapshot) -> _World:
    """With all that follows from it, in any dataflow."""
    below = world.own | world.desired.graph.downstream(world.own)
    made = frozenset(n for n in below if world.desired.nodes[n].has_rows)
    return _World.of(facts, made, world.principal)


def _until(
    world: _World, past: PastStates, is_enough: Callable[[Collection[Run]], bool]
) -> list[Run]:
    """The waves that are known for certain, the last ones first: as many as are needed, if there
    are."""
    request_times = force_times(world.tx, world.branch)
    while True:
        certain_runs = _certain(world, past, request_times)
        if is_enough(certain_runs) or not past.deepen():
            return certain_runs


def _certain(world: _World, past: PastStates, request_times: Sequence[float]) -> list[Run]:
    horizon = past.horizon
    if all(states[0].at <= horizon for states in past.states.values()):
        return []  # as at first, where of each dataset the newest state is known alone
    order = {name: place for place, name in enumerate(world.desired.order)}
    grouped = runs.runs(runs.commits_of(past.states, request_times), order)
    reaching = (
        run for run in grouped if run.datasets & world.own and sees_start(world.principal, run)
    )
    certain = [run for run in reaching if run.commits[0].at > horizon]
    return sorted(certain, key=lambda run: (run.commits[0].at, run.number), reverse=True)


def _page(all_runs: Collection[Run], before: str | None) -> list[Run]:
    """Those behind the wave `before`."""
    listed = list(all_runs)
    if before is None:
        return listed
    place = next((number for number, run in enumerate(listed) if run.id == before), len(listed))
    return listed[place + 1 :]


def _flow(name: str) -> str:
    return name.partition(".")[0]


# --- one wave -------------------------------------------------------------------------------------


def _wave(run: Run, world: _World, past: PastStates, audit: Audit, did: RunEffects) -> Wave:
    first, every = run.commits[0], _states(run, past)
    by_dataset: dict[str, list[State]] = {}
    for state in every:
        by_dataset.setdefault(state.dataset, []).append(state)
    names = [name for name in by_dataset if world.sees(name)]
    stopped = [name for name in names if _is_equal(by_dataset[name], past)]
    beside = _beside(run, world)
    keys = _keys(every[0], world, past)
    return {
        "id": run.id,
        "at": json_views.instant(first.at),
        "until": json_views.instant(run.commits[-1].at),
        "dataset": first.maker,
        "cause": first.cause,
        "reason": reason(run),
        "causes": causes(run),
        "actor": actor_of(run, audit),
        "revision": None if run.revision is None else f"{run.revision[0]}@{run.revision[1]}",
        "datasets": names,
        "reached": len(names) - len(stopped),
        "stopped": len(stopped),
        "left_alone": sum(_is_left_alone(name, run, past) for name in beside),
        "exports": did.exports,
        "tasks": did.tasks,
        "keys": keys[:SHOWN_KEYS],
        "more_keys": len(keys) > SHOWN_KEYS,
    }


def _keys(first: State, world: _World, past: PastStates) -> list[WaveKey]:
    """The first partitions of a source that changed, and one more; none where the tree is
    damaged."""
    before = past.before(first.dataset, first.seq)
    node = world.desired.nodes.get(first.dataset)
    if before is None or first.cause not in OF_SOURCES or node is None or not node.is_source:
        return []
    try:
        differing = list(
            islice(tree.diff(world.nodes, before.root, first.root, window=1), SHOWN_KEYS + 1)
        )
    except CorruptNode:
        return []
    return [{"partition": change.key, "change": kind_of(change)} for change in differing]


def _states(run: Run, past: PastStates) -> list[State]:
    """Its commits, in order."""
    places = {(commit.dataset, commit.seq): place for place, commit in enumerate(run.commits)}
    states = (
        state for name in run.datasets for state in past.states[name] if (name, state.seq) in places
    )
    return sorted(states, key=lambda state: places[state.dataset, state.seq])


def _is_equal(states: Sequence[State], past: PastStates) -> bool:
    """True if the rows of a dataset are the same before and after its states in the wave."""
    before = past.before(states[0].dataset, states[0].seq)
    return before is not None and before.generation == states[-1].generation


def _is_stopped(state: State, past: PastStates) -> bool:
    """Its rows came out as they were."""
    before = past.before(state.dataset, state.seq)
    return before is not None and before.generation == state.generation


def _beside(run: Run, world: _World) -> set[str]:
    """Datasets that it did not reach, of the dataflows that it did."""
    flows = {_flow(name) for name in run.datasets & world.own}
    beside = {name for flow in flows for name in world.by_flow[flow]} - run.datasets
    return {name for name in beside if world.sees(name)}


def _is_left_alone(name: str, run: Run, past: PastStates) -> bool:
    return past.was_there(name, run.commits[-1].at)


def _commit(state: State, past: PastStates, counting: ChangeCounting) -> WaveCommit:
    before = past.before(state.dataset, state.seq)
    return {
        "dataset": state.dataset,
        "generation": state.generation,
        "at": json_views.instant(state.at),
        "cause": state.cause,
        "revision": state.revision,
        "partitions": state.partitions,
        "rows": state.rows,
        "root": state.root.hex(),
        "before": None if before is None else before.root.hex(),
        "stopped": _is_stopped(state, past),
        "changes": counting.between(tree.EMPTY_ROOT if before is None else before.root, state.root),
    }

"""Rolling datasets back: the rows of an earlier generation become the newest state, and are held
there.

Each dataset gets a state with the old root and schema, and a hold beside it, all in one
transaction. Numbers go on, so tables and copies follow by the ordinary difference. The state
remembers nothing of inputs: trees of the old state's inputs may be gone by now. So the next plan
after the hold examines all of them, and adopts remembered results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from controlplane.core import tree
from controlplane.core.compile.compiled_checks import record_key
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import (
    AppendOnly,
    CorruptNode,
    CutsDisagree,
    NotReadable,
    StaleState,
)
from controlplane.core.model.addresses import Moment, Point
from controlplane.core.model.answers import RollbackAnswer, RollbackEntry
from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import COMMITTED, Event, committed_body
from controlplane.core.model.holds import Hold
from controlplane.core.model.states import State
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import branches, earlier_states
from controlplane.operations.desired.earlier_states import Chosen
from controlplane.operations.inspect.json_views import instant
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Tx

TRIES = 5  # a concurrent commit may come between reading a state and rolling it back
FRAGMENTS_A_TIME = 5_000


@dataclass(frozen=True, slots=True)
class _RollbackRequest:
    """A rollback request: the target, and the generation or time to go back to."""

    branch: str
    target: str
    to: Point
    reason: str


def rollback(
    ctx: Context, branch: str, target: str, to: Point, *, reason: str = "", force: bool = False
) -> RollbackAnswer:
    """Go back to an earlier generation of a dataset, or to the data of a dataset or dataflow at a
    time, and stay there. `force`: also where datasets would reflect different states of one source.

    Raises GenerationGone for a generation that is no longer kept, NotReadable where files of it are
    lost, AppendOnly, CutsDisagree, NotFound and BranchProtected. All of it happens, or nothing.
    """
    request = _RollbackRequest(branch, target, to, reason)
    for _ in range(TRIES - 1):
        try:
            return _rolled_back(ctx, request, force=force)
        except StaleState:
            continue  # a commit came between
    return _rolled_back(ctx, request, force=force)


def _rolled_back(ctx: Context, request: _RollbackRequest, *, force: bool) -> RollbackAnswer:
    with ctx.begin() as tx:
        tx.upkeep.collections()  # first: no collection begins before the old roots have a new state
        branches.require_editable(ctx, tx, request.branch)
        nodes = desired(tx, request.branch, namespace=ctx.namespace)
        chosen = earlier_states.choose(tx, request.branch, nodes, request.target, request.to)
        _require_rewritable(request.branch, nodes, chosen.states)
        if not force:
            _require_agreeing(request.target, chosen)
        for state in chosen.states.values():
            _require_stored(tx, state)
        entries = _write(ctx, tx, request, chosen.states)
        _stop(tx, request.branch, nodes, chosen.states)
        _note(ctx, tx, request, entries, force=force)
    ctx.wake()
    return {
        "branch": request.branch,
        "target": request.target,
        "held": entries,
        "left_out": chosen.left_out,
    }


# --- refusals -------------------------------------------------------------------------------------


def _require_rewritable(branch: str, nodes: Desired, datasets: Iterable[str]) -> None:
    """Raises AppendOnly."""
    if branch != MAIN:
        return
    for dataset in datasets:
        if nodes.nodes[dataset].component.append_only:
            raise AppendOnly(dataset)


def _require_agreeing(target: str, chosen: Chosen) -> None:
    """Raises CutsDisagree, with the last time before at which there is no such difference."""
    differing = earlier_states.disagreement(chosen.states.values())
    if differing is None:
        return
    dataset, other, source = differing
    agreed = earlier_states.last_agreeing(chosen)
    raise CutsDisagree(
        target,
        dataset,
        other,
        source=source,
        agreed=None if agreed is None else str(Moment.of(agreed)),
    )


def _require_stored(tx: Tx, state: State) -> None:
    """Raises NotReadable."""
    lacking = 0
    try:
        fragments = (entry.fragment for entry in tree.scan(tx.nodes, state.root))
        while some := list(islice(fragments, FRAGMENTS_A_TIME)):
            stored = tx.traces.stored(some)
            lacking += sum(id not in stored or stored[id].status != "stored" for id in some)
    except CorruptNode as e:
        raise NotReadable(state.dataset, state.generation, str(e)) from e
    if lacking:
        raise NotReadable(
            state.dataset, state.generation, f"the files of {lacking} of its partitions are lost"
        )


# --- writing --------------------------------------------------------------------------------------


def _write(
    ctx: Context, tx: Tx, request: _RollbackRequest, states: Mapping[str, State]
) -> list[RollbackEntry]:
    """A state and a hold of each. Raises StaleState."""
    newest = tx.states.newest(request.branch, states)
    return [_write_one(ctx, tx, request, newest[name], old) for name, old in states.items()]


def _write_one(
    ctx: Context, tx: Tx, request: _RollbackRequest, newest: State, old: State
) -> RollbackEntry:
    is_same = (newest.root, newest.schema) == (old.root, old.schema)
    state = replace(
        old,
        branch=request.branch,
        seq=newest.seq + 1,
        generation=newest.generation + (not is_same),
        inputs={},
        cause="rollback",
        at=tx.now(),
    )
    tx.states.commit(state, newest.seq)
    hold = Hold(
        branch=request.branch,
        dataset=old.dataset,
        seq=state.seq,
        generation=_original(tx, request.branch, old),
        actor=ctx.actor,
        at=state.at,
        reason=request.reason,
    )
    tx.states.put_hold(hold)
    _keep_checks(tx, old, state)
    body = committed_body(state)
    tx.events.put([Event(COMMITTED, state.dataset, state.partitions, body, branch=request.branch)])
    return {
        "dataset": state.dataset,
        "generation": state.generation,
        "before": newest.generation,
        "back_to": hold.generation,
        "at": instant(old.at),
        "rows": state.rows,
    }


def _original(tx: Tx, branch: str, old: State) -> int:
    """The generation that a rollback went back to, as far as it is recorded."""
    hold = tx.states.holds(branch).get(old.dataset)
    return hold.generation if hold is not None and hold.seq == old.seq else old.generation


def _keep_checks(tx: Tx, old: State, state: State) -> None:
    """Copy the check results of the old generation: the rows are the same."""
    before = record_key(old.branch, old.dataset, old.generation)
    memos = tx.traces.memos([before])
    if before in memos:
        tx.traces.put_memo(record_key(state.branch, state.dataset, state.generation), memos[before])


def _stop(tx: Tx, branch: str, nodes: Desired, datasets: Iterable[str]) -> None:
    """Drop all demands of the datasets, and unfinished runs downstream that read their rows."""
    names = list(datasets)
    for name in names:
        tx.queue.drop_demands(branch, name)
        tx.states.drop_building(branch, name)
    tx.states.drop_unfinished(branch, [*names, *nodes.graph.downstream(names)])


def _note(
    ctx: Context,
    tx: Tx,
    request: _RollbackRequest,
    entries: Sequence[RollbackEntry],
    *,
    force: bool,
) -> None:
    before = {entry["dataset"]: entry["before"] for entry in entries}
    after = {
        "generations": {entry["dataset"]: entry["generation"] for entry in entries},
        "back_to": {entry["dataset"]: entry["back_to"] for entry in entries},
        "reason": request.reason,
        "force": force,
    }
    note_change(
        ctx, tx, "rollback", request.target, before=before, after=after, branch=request.branch
    )
    tx.events.put(
        [Event("operator.rollback", request.target, 1, {"actor": ctx.actor}, branch=request.branch)]
    )

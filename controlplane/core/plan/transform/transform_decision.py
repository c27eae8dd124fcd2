"""Deciding about transforms: from the states of its inputs to one step.

    offers           an input has no state yet      -> not ready: stale or blocked
      | newest states
    consistent       the inputs disagree            -> waiting
      | chosen states: their columns decide modes that follow from types (`compile.key_types`)
    is_current       made from just these           -> up to date
      | case
    _key_fault       an input lacks a key column    -> failed
      |
    with_indexes    key indexes of `by` inputs are brought up to date, as far as memory has them
      |
    build trace      the whole output is known      -> Commit: a pointer moves
      |
    analysis memo    the output's columns are not   -> Learn: ask Spark's analyzer
      |
    import           rows were imported             -> Commit; or a partial root, whose holes remain
      |
    lagging index    an index lacks partitions      -> Compute: index tasks
      | schema
    fold | compute   the partitions of the output   -> Compute, Commit, or failed

A run under way goes through the same steps on the inputs that it began with (`finish`), before the
newest inputs are considered (`decide`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from controlplane.core.compile import ids, key_types
from controlplane.core.compile.nodes import Transform
from controlplane.core.model.memos import is_together_in, schema_in
from controlplane.core.model.states import PartialState, State, UnfinishedRun
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, salts, unfinished, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Commit, Decision, Item, Learn, Planning, user_error
from controlplane.core.plan.transform import compute, fold, imports, partials
from controlplane.core.plan.transform.case import (
    Case,
    cut,
    half_built,
    is_current,
    item_of,
    state_after,
    uncertain,
)
from controlplane.core.plan.transform.closed_keys import with_closed_keys
from controlplane.core.plan.transform.extent import still_right
from controlplane.core.plan.transform.input_states import (
    Input,
    after,
    consistent,
    not_ready,
    offers,
    read,
)
from controlplane.core.plan.transform.key_index import KeyIndex, follow, key_fault
from controlplane.core.plan.transform.transform_jobs import logic_job
from controlplane.core.plan.unfinished import Finishing
from controlplane.core.plan.work_keys import Keys, lacking, listed, union
from dataplane.contract.identity import schema_id
from dataplane.contract.schemas import Schema

Offers: TypeAlias = tuple[State | PartialState, ...]  # one for each slot


def finish(planning: Planning, node: Transform) -> Finishing:
    """The remaining work of the run under way; None if there is none, or it reads the newest
    inputs."""
    run = unfinished.current_run(planning, node)
    if run is None:
        return None
    newest = offers(planning, node)
    if isinstance(newest, Decision):
        return None
    if _reads(node, run, newest):
        return None
    chosen = consistent(planning, node, newest)
    started_with = yield from unfinished.inputs_of(node, run)
    # States of its inputs are gone: nothing can be read as the run has read it.
    if started_with is None:
        return unfinished.GIVEN_UP
    # The inputs agree on nothing newer.
    if chosen == started_with:
        return None
    # The newest inputs need no work, for example because the file that led to the run is gone.
    if chosen is not None and is_current(case_of(planning, node, chosen)):
        return unfinished.GIVEN_UP
    case = case_of(planning, node, started_with)
    # The run is done already.
    if is_current(case):
        return unfinished.GIVEN_UP
    decision = yield from _decide_stale(case)
    return unfinished.continue_run(decision)


def _reads(node: Transform, run: UnfinishedRun, inputs: Offers) -> bool:
    for slot, state in zip(node.slots, inputs, strict=True):
        if isinstance(state, PartialState):
            return False
        if run.states.get(slot.name) != state.seq:
            return False
    return True


def decide(planning: Planning, node: Transform) -> Deciding[Decision]:
    """What the newest inputs need."""
    newest = offers(planning, node)
    if isinstance(newest, Decision):
        return newest
    chosen = consistent(planning, node, newest)
    if chosen is None:
        return _inconsistent(planning, node, newest)
    case = case_of(planning, node, chosen)
    if is_current(case):
        decision = Decision(node.dataset, "up_to_date")
    else:
        decision = yield from _decide_stale(case)
    return after(planning, node, decision)


def _inconsistent(planning: Planning, node: Transform, newest: Offers) -> Decision:
    for slot, state in zip(node.slots, newest, strict=True):
        # Once it is whole, there may be states that agree.
        if isinstance(state, PartialState):
            return not_ready(planning, node, slot)
    reason = "its inputs reflect different states of a source that they share"
    if node.dataset in planning.behind_holds:
        held = sorted(planning.holds.keys() & planning.desired.graph.upstream([node.dataset]))
        reason = f"{reason}, since {' and '.join(held)} {'is' if len(held) == 1 else 'are'} held"
    return Decision(node.dataset, "waiting", reason=reason)


def case_of(planning: Planning, node: Transform, chosen: Sequence[State | PartialState]) -> Case:
    schemas = {
        slot.name: of.schema
        for slot, of in zip(node.slots, chosen, strict=True)
        if of.schema is not None
    }
    node = key_types.decided(node, schemas)
    return Case(planning, node, planning.state(node.dataset), read(planning, node, chosen))


# --- a state that was made from other inputs, or by other code -------------------------------------


def _decide_stale(case: Case) -> Deciding[Decision]:
    decision = yield from _next_step(case)
    # A run is known by the states that it reads. A partial root is no state, and moves on.
    if not case.is_whole:
        return decision
    states = {i.slot.name: i.of.seq for i in case.inputs if isinstance(i.of, State)}
    return unfinished.with_run(case.planning, case.node, decision, states, cut(case))


def _next_step(case: Case) -> Deciding[Decision]:
    yield from lookups.nodes([(i.of.root, ()) for i in case.inputs if not i.is_parted])
    fault = _key_fault(case)
    if fault is not None:
        return Decision(case.node.dataset, "failed", error=user_error("invalid-key-column", fault))
    case, lagging = yield from with_indexes(case)

    # The build key covers all of the inputs, so there is none before all of them are known.
    is_input_known = case.is_whole and lagging is None
    build = _build_key(case) if is_input_known else None
    analysis = ids.analysis_key(case.node.code_logic, case.schemas)
    imported = imports.key_of(case) if is_input_known else None
    keys = [key for key in (build, imported) if key is not None]
    builds, memos = yield from lookups.remembered(keys, [analysis])
    if build is not None and build in builds:
        return (yield from _adopt(case, *builds[build], build))

    yield from lookups.nodes([(root, ()) for root in _roots(case)])
    if analysis not in memos and case.node.late is None:
        return (yield from _analyse(case, analysis, build))
    if lagging is not None:
        return (yield from _index(case, lagging))

    # The columns of a topic's rows are known: no driver is started for nothing.
    columns = case.inputs[0].schema if case.node.late else schema_in(memos[analysis])
    schema = case.node.with_reason(columns)
    if build is not None and imported is not None and imported in builds:
        continued = yield from imports.with_import(case, *builds[imported], schema)
        if isinstance(continued, Decision):
            return continued
        case = continued
        if imports.is_whole(case):
            return (yield from _adopt(case, *builds[imported], build))
        case = yield from imports.with_progress(case)
    # What volatile code gives for one key is not what it gives for the next
    is_together = analysis in memos and is_together_in(memos[analysis])
    is_together = is_together and not case.node.is_volatile
    # Rows of a granule that several keys read would meet rows of all of them
    is_together = is_together and case.leading == case.parted
    case = replace(case, is_together=is_together)
    if case.node.fold is not None:
        assert build is not None  # a fold has no `by` input, and waits for partial ones
        return (yield from fold.decide(case, case.node.fold, schema, build))
    return (yield from compute.decide(case, schema, build))


def _roots(case: Case) -> list[bytes]:
    """All that the next steps compare."""
    now = [i.of.root for i in case.inputs]
    before = [consumed.root for consumed in case.state.inputs.values()] if case.state else []
    return [*now, *before, case.root]


def _key_fault(case: Case) -> str | None:
    """Why an input cannot be read `by` the key."""
    if case.node.body.is_final and not case.leading:
        return "emit: final needs an input by key, and by their types the inputs are read whole"
    for i in case.inputs:
        if i.slot.mode != "by":
            continue
        fault = key_fault(case.node, i.slot, i.schema)
        if fault is not None:
            return fault
    return None


# --- build traces ---------------------------------------------------------------------------------


def _build_key(case: Case) -> bytes:
    return ids.build_key(case.node.logic, _basis(case), salts.of_output(case.planning, case.node))


def _basis(case: Case) -> dict[str, object]:
    """What the whole output is a function of."""
    return {i.slot.name: _basis_of(case, i) for i in case.inputs}


def _basis_of(case: Case, i: Input) -> dict[str, object]:
    # An input that is read `all` counts by its rows: its code does not see their partition keys.
    # What volatile code gave for one root is not taken for another one of equal rows.
    is_root_needed = i.is_parted or case.node.is_volatile
    data = i.root if is_root_needed else tuple(i.content(case.planning))
    return {"mode": i.slot.mode, "schema": schema_id(i.schema), "data": data}


def _adopt(case: Case, root: bytes, schema: Schema, build: bytes) -> Deciding[Decision]:
    """The whole output is known: a pointer moves."""
    case = replace(case, parts=dict(partials.carried(case)))
    yield from lookups.nodes([(root, ())])
    keys = Keys()
    if root != case.root:
        keys = lacking(case.nodes, root)
    items = (item_of(case, "adopt", 0, keys),) if keys.count else ()
    # A second output of tasks counts with the first
    adopted = 0 if case.node.output else keys.count
    commit = Commit(state_after(case, root, schema), None, adopted, None, build)
    return Decision(case.node.dataset, "stale", commit, items)


# --- analysis -------------------------------------------------------------------------------------


def _analyse(case: Case, key: bytes, build: bytes | None) -> Deciding[Decision]:
    """Ask Spark's analyzer for the schema of the output under these read schemas."""
    dataset, job = case.node.dataset, logic_job(case.node, case.schemas)
    task = Task(key, "analyse", case.node.maker, "", ids.job_id(job), {})
    status, error = yield from windows.learning(task)
    items = yield from _work_after(case, build)
    pending = union(item.keys for item in items)
    return Decision(
        dataset, status, Learn((task,), job), items, "analysis", error=error, pending=pending
    )


def _work_after(case: Case, build: bytes | None) -> Deciding[tuple[Item, ...]]:
    """The work once the columns are known. The tasks are named without them, so they are
    certain."""
    # How far an index is may change without a mark as long as only the analysis is asked for.
    is_by_key = any(i.slot.mode == "by" for i in case.inputs)
    if build is None or is_by_key or case.node.fold is not None:
        return (_analysed_first(case),)
    decision = yield from compute.decide(case, None, build)
    return decision.items or (_analysed_first(case),)


def _analysed_first(case: Case) -> Item:
    keys = _possible_keys(case)
    return uncertain(item_of(case, "compute", keys.count, keys), "once Spark has analysed the code")


def _possible_keys(case: Case) -> Keys:
    """Every partition that the output may have."""
    nodes = case.nodes
    # Of an output by key, those that it has.
    if any(i.slot.mode == "by" for i in case.inputs):
        return _or_whole(lacking(nodes, case.root))
    if not case.parted:
        return listed(("",))
    keys = [lacking(nodes, i.root) for i in case.parted]
    keys += [i.pending for i in case.inputs if i.pending is not None]
    return union(keys)


def _or_whole(keys: Keys) -> Keys:
    """Where no key is known: the output as one partition."""
    return keys if keys.count else listed(("",))


# --- key indexes ----------------------------------------------------------------------------------


def with_indexes(case: Case) -> Deciding[tuple[Case, KeyIndex | None]]:
    """The case with the indexes of its `by` inputs, and the first of them that does not reflect its
    input yet."""
    inputs: list[Input] = []
    lagging: KeyIndex | None = None
    for i in case.inputs:
        if i.slot.mode != "by":
            inputs.append(i)
            continue
        index = yield from follow(case, i)
        inputs.append(replace(i, index=index.trees))
        if lagging is None and not index.is_whole:
            lagging = index
    return with_closed_keys(replace(case, inputs=tuple(inputs))), lagging


def _index(case: Case, lagging: KeyIndex) -> Deciding[Decision]:
    """Ask for what an index lacks. Which partitions of the output follow from it is not known
    yet."""
    missing = union(
        [lacking(case.nodes, root) for root in (case.root, *(i.root for i in case.leading))]
    )
    keys = _or_whole(missing)
    work = item_of(case, "compute", lagging.missing, keys)
    work = uncertain(work, "once it is known which keys the changed partitions have")
    building = None
    if lagging.is_windowed:
        root = yield from still_right(case)
        building = half_built(case, root, None)
    return lagging.request(work, building)

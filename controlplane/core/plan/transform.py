"""Deciding about transforms: consistent inputs, analysed schema, changed keys, memory, tasks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controlplane.core import ids, sql, tree
from controlplane.core.blueprint import PythonTransform, SqlTransform
from controlplane.core.dataflow import Sink, Slot, Transform
from controlplane.core.model import Cause, Consumed, State, Task, Trace
from controlplane.core.plan.values import (
    Because,
    Commit,
    Decision,
    Item,
    Learn,
    Pending,
    Planning,
    entering,
    entries,
    learning,
    next_state,
    of_tasks,
    shown,
    user_error,
)
from controlplane.core.schemas import EMPTY_SCHEMA
from dataplane.contract import EMPTY, Content, Json, Schema, schema_id, slot_id, task_key

BATCH_SEARCH = 4_000  # combinations of recent input states that are tried for an agreeing one
ROW_COST = 100  # bytes that a row counts for when claims are sized
SINGLE_COST = 8 << 20  # bytes that a task counts for that cannot share a Spark job


@dataclass(frozen=True, slots=True)
class _Input:
    """One slot with the state that it reads, under the schema that it reads it with."""

    slot: Slot
    state: State
    schema: Schema
    content: Content  # of the whole input

    @property
    def consumed(self) -> Consumed:
        return Consumed(self.slot.dataset, self.state.root, schema_id(self.schema))


def decide(planning: Planning, node: Transform) -> Decision:
    waiting = _not_ready(planning, node)
    if waiting is not None:
        return waiting
    chosen = _consistent(planning, node)
    if chosen is None:
        return Decision(
            node.dataset, "waiting", reason="its inputs reflect different states of a source that they share"
        )
    state = planning.state(node.dataset)
    inputs = _inputs(planning, node, chosen)
    if state is not None and _is_current(node, state, inputs):
        return _after(planning, node, Decision(node.dataset, "up_to_date"))
    return _after(planning, node, _stale(planning, node, state, inputs))


def _after(planning: Planning, node: Transform, decision: Decision) -> Decision:
    """Add what may follow from inputs that are still at work, and that an input cannot be relied on."""
    if decision.status != "up_to_date" or decision.items:
        return decision
    bound, blocked = _bound(planning, node), _blocking(planning, node)
    if blocked:
        reason = f"{blocked} is {planning.decisions[blocked].status}"
        return Decision(node.dataset, "blocked", blocked_by=blocked, reason=reason, pending=bound)
    if bound is None:
        return decision
    items = (_possible(node, bound),)
    return Decision(node.dataset, "stale", items=items, pending=bound, reason="an input is being computed")


# --- inputs ---------------------------------------------------------------------------------------


def _not_ready(planning: Planning, node: Transform) -> Decision | None:
    """A decision if some input has no state, or one that other code than the desired one made."""
    for slot in node.slots:
        state, desired = planning.state(slot.dataset), planning.desired.nodes[slot.dataset]
        if state is not None and not isinstance(desired, Sink) and state.lineage == desired.lineage:
            continue
        above = planning.decisions.get(slot.dataset)
        if above is not None and above.status in ("failed", "blocked", "waiting", "paused"):
            return Decision(
                node.dataset, "blocked", blocked_by=slot.dataset, reason=f"{slot.dataset} is {above.status}"
            )
        bound = _bound(planning, node) or Pending(None, 1)
        return Decision(
            node.dataset, "stale", items=(_possible(node, bound),), pending=bound, reason=f"waits for {slot.dataset}"
        )
    return None


def _blocking(planning: Planning, node: Transform) -> str:
    """An input that failed, is paused or waits; empty if there is none."""
    for slot in node.slots:
        above = planning.decisions.get(slot.dataset)
        if above is not None and above.status in ("failed", "blocked", "waiting"):
            return slot.dataset
    return ""


def _bound(planning: Planning, node: Transform) -> Pending | None:
    """What of this dataset may still change because of inputs that are not settled."""
    touched = [(s, d.pending) for s in node.slots if (d := planning.decisions.get(s.dataset)) and d.pending]
    if not touched:
        return None
    each = [p for s, p in touched if s.mode == "each"]
    if not any(s.mode == "each" for s in node.slots):
        return Pending(("",), 1)
    if len(each) < len(touched):
        known = planning.state(next(s.dataset for s in node.slots if s.mode == "each"))
        return Pending(None, max(known.partitions if known else 0, sum(p.count for p in each)))
    keys = [p.keys for p in each]
    if any(k is None for k in keys):
        return Pending(None, sum(p.count for p in each))
    union = sorted({k for ks in keys if ks for k in ks})
    return Pending(tuple(union), len(union))


def _possible(node: Transform, bound: Pending) -> Item:
    keys = shown(bound.keys or ())
    return Item(node.dataset, "compute", "input", False, bound.count, bound.count, keys)


def _consistent(planning: Planning, node: Transform) -> tuple[State, ...] | None:
    """The newest combination of recent input states, made by the desired code, that agree on shared sources."""
    newest = tuple(planning.state(s.dataset) for s in node.slots)
    states = tuple(s for s in newest if s is not None)
    if _agree(states):
        return states
    candidates = [
        [s for s in planning.history(slot.dataset) if s.lineage == state.lineage]
        for slot, state in zip(node.slots, states, strict=True)
    ]
    ranked = itertools.islice(itertools.product(*candidates), BATCH_SEARCH)
    current = planning.state(node.dataset)
    floor = _floor(node, current, candidates)
    agreeing = (c for c in ranked if _agree(c) and all(s.seq >= f for s, f in zip(c, floor, strict=True)))
    return max(agreeing, key=lambda c: sum(s.seq for s in c), default=None)


def _floor(node: Transform, current: State | None, candidates: Sequence[Sequence[State]]) -> list[int]:
    """Never go back behind the states that were consumed last."""
    floor = []
    for slot, states in zip(node.slots, candidates, strict=True):
        used = current.inputs.get(slot.name) if current else None
        floor.append(
            max((s.seq for s in states if used and s.root == used.root and s.cut == _cut(current, s)), default=0)
        )
    return floor


def _cut(current: State | None, state: State) -> Mapping[str, bytes]:
    return {k: v for k, v in current.cut.items() if k in state.cut} if current else {}


def _agree(states: Sequence[State]) -> bool:
    seen: dict[str, bytes] = {}
    return all(seen.setdefault(source, root) == root for s in states for source, root in s.cut.items())


def _inputs(planning: Planning, node: Transform, chosen: tuple[State, ...]) -> tuple[_Input, ...]:
    nodes = planning.world.nodes
    return tuple(
        _Input(slot, state, node.read_schema(state.schema), tree.totals(nodes, state.root).content)
        for slot, state in zip(node.slots, chosen, strict=True)
    )


def _is_current(node: Transform, state: State, inputs: tuple[_Input, ...]) -> bool:
    return (
        state.lineage == node.lineage
        and dict(state.inputs) == {i.slot.name: i.consumed for i in inputs}
        and state.cut == _merged_cut(inputs)
    )


def _merged_cut(inputs: tuple[_Input, ...]) -> dict[str, bytes]:
    return {source: root for i in inputs for source, root in sorted(i.state.cut.items())}


# --- work -----------------------------------------------------------------------------------------


def _stale(planning: Planning, node: Transform, state: State | None, inputs: tuple[_Input, ...]) -> Decision:
    known = _analysed(planning, node, inputs)
    if isinstance(known, Decision):
        return known
    build = ids.build_key(node.logic, _basis(node, inputs))
    if found := planning.world.build_trace(build):
        return _adopt(planning, node, state, inputs, found, build)
    return _by_keys(planning, node, state, inputs, known["schema"], build)


def _basis(node: Transform, inputs: tuple[_Input, ...]) -> Json:
    """What the whole output is a function of; keys of an `all` input are not part of it."""
    return {
        i.slot.name: {
            "mode": i.slot.mode,
            "schema": schema_id(i.schema),
            "data": i.state.root if i.slot.mode == "each" or node.is_volatile else tuple(i.content),
        }
        for i in inputs
    }


def _analysed(planning: Planning, node: Transform, inputs: tuple[_Input, ...]) -> Json | Decision:
    """`{"schema": ...}` of the output under these read schemas, or the decision to ask Spark's analyzer."""
    schemas = {i.slot.name: i.schema for i in inputs}
    key = ids.analysis_key(node.logic, schemas)
    memo = planning.world.memo(key)
    if memo is not None:
        return memo
    job = logic_job(node, {i.slot.name: i.schema for i in inputs})
    task = Task(key, "analyse", node.dataset, "", ids.job_id(job), {})
    status, error = learning(planning, task)
    bound = Pending(None, max((i.state.partitions for i in inputs), default=1))
    item = Item(
        node.dataset, "compute", _cause(planning.state(node.dataset), node, inputs), False, bound.count, bound.count, ()
    )
    return Decision(node.dataset, status, Learn(task, job), (item,), "analysis", error=error, pending=bound)


def logic_job(node: Transform, schemas: Mapping[str, Schema]) -> Json:
    """The part of a job that says what to run; see docs/protocol.md."""
    inputs = {s.name: {"view": view_of(s.name), "mode": s.mode, "schema": schemas[s.name]} for s in node.slots}
    common = {"spark": dict(node.spark), "params": dict(node.body.params), "inputs": inputs}
    if node.query is None:
        body = node.body
        assert isinstance(body, PythonTransform)
        return {
            **common,
            "language": "python",
            "modules": dict(body.modules),
            "main": body.main,
            "entrypoint": body.entrypoint,
        }
    return {**common, "language": "sql", **_texts(node)}


def view_of(slot: str) -> str:
    """The temporary view's name: `other.ds` cannot be one."""
    return slot.replace(".", "__")


def _texts(node: Transform) -> Json:
    query, body = node.query, node.body
    assert query is not None
    assert isinstance(body, SqlTransform)
    edits = query.rename_edits({s.name: view_of(s.name) for s in node.slots if "." in s.name})
    each = [s.name for s in node.slots if s.mode == "each"]
    labels = query.label_edits(each[0]) if len(each) == 1 and query.mode(each[0]).mode == "each" else None
    return {
        "sql": sql.apply_edits(body.sql, edits),
        "edits": [[e.start, e.end, e.text] for e in edits],
        "batch_sql": None if labels is None else sql.apply_edits(body.sql, [*edits, *labels]),
        "batch_input": each[0] if labels is not None else None,
    }


def _adopt(
    planning: Planning,
    node: Transform,
    state: State | None,
    inputs: tuple[_Input, ...],
    found: tuple[bytes, Schema],
    build: bytes,
) -> Decision:
    root, schema = found
    before = state.root if state else tree.EMPTY_ROOT
    changes = [c.after is not None for c in tree.diff(planning.world.nodes, before, root)]
    after = _state(planning, node, state, inputs, root, schema)
    items = [_item(node, state, inputs, "adopt", 0, sum(changes), ())] if any(changes) else []
    if not all(changes):
        items.append(_item(node, state, inputs, "remove", 0, len(changes) - sum(changes), ()))
    return Decision(node.dataset, "stale", Commit(after, None, sum(changes), None, build), tuple(items))


def _by_keys(
    planning: Planning,
    node: Transform,
    state: State | None,
    inputs: tuple[_Input, ...],
    schema: Schema | None,
    build: bytes,
) -> Decision:
    wanted, removed = _keys(planning, node, state, inputs)
    keys = {key: _task_key(node, inputs, key, read) for key, read in wanted.items()}
    traces = planning.world.traces(list(dict.fromkeys(keys.values())))
    missing = [key for key, task in keys.items() if task not in traces]
    if missing:
        return _compute(planning, node, state, inputs, wanted, keys, missing, removed)
    return _commit(planning, node, state, inputs, schema, keys, traces, removed, build)


Reads = Mapping[str, tree.Entry | None]  # `each` slot -> what the partition reads through it


def _keys(
    planning: Planning, node: Transform, state: State | None, inputs: tuple[_Input, ...]
) -> tuple[dict[str, Reads], list[str]]:
    """Partitions to look at, with what they read, and partitions that vanish."""
    nodes = planning.world.nodes
    each = [i for i in inputs if i.slot.mode == "each"]
    if not each:
        before = (e.key for e in tree.scan(nodes, state.root)) if state else iter(())
        return {"": {}}, [k for k in before if k]
    if state is not None and _is_incremental(planning, node, state, inputs):
        changed = {c.key for i in each for c in tree.diff(nodes, state.inputs[i.slot.name].root, i.state.root)}
        found = {i.slot.name: tree.lookup(nodes, i.state.root, sorted(changed)) for i in each}
    else:
        found = {i.slot.name: {e.key: e for e in tree.scan(nodes, i.state.root)} for i in each}
        changed = {k for entries in found.values() for k in entries}
        changed |= {e.key for e in tree.scan(nodes, state.root)} if state else set()
    ordered = sorted(changed, key=str.encode)
    wanted = {k: {name: entries.get(k) for name, entries in found.items()} for k in ordered}
    gone = [k for k, reads in wanted.items() if not any(reads.values())]
    return {k: r for k, r in wanted.items() if any(r.values())}, gone


def _is_incremental(planning: Planning, node: Transform, state: State, inputs: tuple[_Input, ...]) -> bool:
    """The same logic over the same read schemas and the same contents of `all` inputs: only changed keys count."""
    nodes = planning.world.nodes

    def same(i: _Input) -> bool:
        used = state.inputs.get(i.slot.name)
        if used is None or used.schema != schema_id(i.schema):
            return False
        return i.slot.mode == "each" or tree.totals(nodes, used.root).content == i.content

    return state.logic == node.logic and len(state.inputs) == len(inputs) and all(map(same, inputs))


def _task_key(node: Transform, inputs: tuple[_Input, ...], key: str, reads: Reads) -> bytes:
    slots = {}
    for i in inputs:
        entry = reads.get(i.slot.name)
        content = i.content if i.slot.mode == "all" else entry.content if entry else EMPTY
        slots[i.slot.name] = slot_id(content, i.schema)
    return task_key(node.logic, slots, ids.salt(node.uid, key) if node.is_volatile else None)


def _compute(
    planning: Planning,
    node: Transform,
    state: State | None,
    inputs: tuple[_Input, ...],
    wanted: Mapping[str, Reads],
    keys: Mapping[str, bytes],
    missing: list[str],
    removed: list[str],
) -> Decision:
    job = logic_job(node, {i.slot.name: i.schema for i in inputs})
    job["shared"] = {i.slot.name: i.state.root.hex() for i in inputs if i.slot.mode == "all"}
    digest = ids.job_id(job)
    distinct = {keys[k]: k for k in reversed(missing)}
    batched = bool(job.get("batch_sql"))
    ordered = sorted(distinct.items(), key=lambda t: t[1])
    tasks = tuple(_task(node, digest, task, key, wanted[key], batched) for task, key in ordered)
    items = [_item(node, state, inputs, "compute", len(tasks), len(missing), missing)]
    if removed:
        items.append(_item(node, state, inputs, "remove", 0, len(removed), removed))
    touched = (*missing, *removed)
    decision = Decision(node.dataset, "stale", items=tuple(items))
    return of_tasks(decision, planning.world, tasks, job, Pending(touched, len(touched)))


def _task(node: Transform, job: bytes, task: bytes, key: str, reads: Reads, is_batched: bool) -> Task:
    spec: Json = {"slots": {name: [e.fragment.hex()] if e else [] for name, e in reads.items()}}
    rows = sum(e.content.rows for e in reads.values() if e)
    cost = rows * ROW_COST if is_batched else max(rows * ROW_COST, SINGLE_COST)
    return Task(task, "transform", node.dataset, key, job, spec, cost, priority=node.component.priority)


def _commit(
    planning: Planning,
    node: Transform,
    state: State | None,
    inputs: tuple[_Input, ...],
    schema: Schema | None,
    keys: Mapping[str, bytes],
    traces: Mapping[bytes, Trace],
    removed: list[str],
    build: bytes,
) -> Decision:
    fragments = {key: traces[task].outputs[""] for key, task in keys.items()}
    found = _common_schema(planning, fragments, state) if schema is None else schema
    if found is None:
        message = "its partitions came out with different columns or types"
        return Decision(node.dataset, "failed", error=user_error("schema-differs", message))
    edits = [*entries(planning, fragments), *((key, None) for key in removed)]
    base = state.root if state else tree.EMPTY_ROOT
    root = tree.edit(planning.world.nodes, base, sorted(edits, key=lambda e: e[0].encode()))
    after = _state(planning, node, state, inputs, root, found)
    items = [_item(node, state, inputs, "adopt", 0, len(keys), list(keys))] if keys else []
    if removed:
        items.append(_item(node, state, inputs, "remove", 0, len(removed), removed))
    entered = entering(planning, state, fragments, keys)
    return Decision(node.dataset, "stale", Commit(after, entered, 0, None, build), tuple(items))


def _common_schema(planning: Planning, fragments: Mapping[str, bytes], state: State | None) -> Schema | None:
    """The schema of Python results that could not be analysed: that of all fragments, if they are equal."""
    found = [f.schema for f in planning.world.fragments(list(fragments.values())).values()]
    if state is not None and not found:
        return state.schema
    first = found[0] if found else EMPTY_SCHEMA
    return first if all(s == first for s in found) else None


# --- words ----------------------------------------------------------------------------------------


def _cause(state: State | None, node: Transform, inputs: tuple[_Input, ...]) -> Cause:
    if state is None:
        return "missing"
    if state.logic != node.logic:
        return "logic"
    schemas = {name: c.schema for name, c in state.inputs.items()}
    return "input" if schemas == {i.slot.name: schema_id(i.schema) for i in inputs} else "schema"


def _because(state: State | None, inputs: tuple[_Input, ...]) -> Iterator[Because]:
    for i in inputs:
        used = state.inputs.get(i.slot.name) if state else None
        if used is None or used.root != i.state.root:
            yield Because(i.slot.dataset, used.root if used else None, i.state.root)


def _item(
    node: Transform,
    state: State | None,
    inputs: tuple[_Input, ...],
    action: str,
    tasks: int,
    count: int,
    keys: Sequence[str],
) -> Item:
    cause: Cause = "removed" if action == "remove" else _cause(state, node, inputs)
    because = tuple(_because(state, inputs))
    return Item(node.dataset, action, cause, True, tasks, count, shown(keys), 0, because)  # type: ignore[arg-type]


def _state(
    planning: Planning, node: Transform, before: State | None, inputs: tuple[_Input, ...], root: bytes, schema: Schema
) -> State:
    totals = tree.totals(planning.world.nodes, root)
    after = State(
        branch=planning.branch,
        dataset=node.dataset,
        seq=0,
        generation=0,
        logic=node.logic,
        inputs={i.slot.name: i.consumed for i in inputs},
        root=root,
        schema=schema,
        cut=_merged_cut(inputs),
        partitions=totals.partitions,
        rows=totals.content.rows,
        cause=_cause(before, node, inputs),
        revision=node.revision,
        at=planning.now,
        lineage=node.lineage,
    )
    return next_state(before, after)

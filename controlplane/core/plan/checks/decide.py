"""Deciding about expectations: rows become a dataset's new generation only once what is expected of them was seen to
hold.

What a check found is remembered by partition and, summed up, by root: a root that was seen is one look-up, another one
costs what differs from the present one. Does not belong here: rows that are dropped (they are the dataset's logic), and
evaluating conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeAlias

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.checks import Check, dropped_key, part_key, record_key, whole_key
from controlplane.core.compile.nodes import Source, Transform
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, windows
from controlplane.core.plan.checks import results as verdicts
from controlplane.core.plan.checks.results import Answer
from controlplane.core.plan.keys import Keys, lacking, listed, union
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.values import ROW_COST, Commit, Decision, Item, Keep, Planning, RunChecks
from dataplane.contract.identity import schema_id, slot_id
from dataplane.contract.schemas import Json, Schema

WAITING = "what is expected of its rows is looked at"
Parts: TypeAlias = list[tuple[str, bytes]]  # partition, and the key of what a check finds in it


@dataclass(slots=True)
class _Look:
    """Rows that are looked at: those of `state`, which differ from those of `base`, if any, that were seen before."""

    planning: Planning
    node: Source | Transform
    state: State
    base: State | None
    answers: dict[str, Answer] = field(default_factory=dict)  # by name of the check
    notes: dict[bytes, Json] = field(default_factory=dict)  # memos that follow from others
    tasks: dict[bytes, Task] = field(default_factory=dict)
    jobs: dict[bytes, Json] = field(default_factory=dict)
    is_whole: bool = True  # all that is missing is in `tasks`

    @property
    def checks(self) -> list[Check]:
        return [c for c in self.node.checks if not c.is_drop]

    def key(self, check: Check, of: State) -> bytes:
        return whole_key(check, of.root, schema_id(check.read_schema(of.schema)))

    def need(self, check: Check, key: bytes, partition: str, rows: int, spec: Json, shared: Json = None) -> None:
        """Have a task that answers `key`."""
        job = _job(self.node, check, self.state.schema)
        if shared is not None:
            job["shared"] = shared
        digest, of, cost = ids.job_id(job), self.node.component, rows * ROW_COST
        self.jobs[digest] = job
        self.tasks[key] = Task(
            key, "check", self.node.dataset, partition, digest, spec, cost, priority=of.priority, size=of.resources
        )


def _job(node: Source | Transform, check: Check, schema: Schema) -> dict[str, Json]:
    return {
        "name": check.name,
        "check": check.of.check,
        "unique": list(check.of.unique),
        "spark": dict(node.spark),
        "schema": check.read_schema(schema),
        "shown": schema,
    }


def gate_on_checks(planning: Planning, node: Source | Transform, decision: Decision) -> Deciding[Decision]:
    """The decision, if what is expected of the rows that it commits, or lets stand, holds. Else what to do about it."""
    if not node.checks:
        return decision
    if node.output:
        return _second(node, decision)
    look = _look(planning, node, decision)
    if look is None:
        return decision
    _, memos = yield from lookups.remembered([], _first_keys(look, decision))
    yield from _answer(look, memos)
    if look.tasks or not look.is_whole:
        return (yield from _waiting(look, decision))
    return _settled(look, decision, memos)


def _second(node: Source | Transform, decision: Decision) -> Decision:
    """Of rows that were taken out of a dataset: tasks and errors are those of that one."""
    found = replace(decision, items=tuple(replace(item, tasks=0) for item in decision.items))
    if decision.status != "failed":
        return found
    return replace(found, status="blocked", blocked_by=node.maker, reason=f"{node.maker} is failed", error=None)


def _look(planning: Planning, node: Source | Transform, decision: Decision) -> _Look | None:
    present = planning.state(node.dataset)
    if isinstance(decision.step, Commit):
        return _Look(planning, node, decision.step.state, present)
    stands = isinstance(decision.step, Keep) and decision.status == "up_to_date" and present is not None
    if stands and present is not None and not all(c.is_drop for c in node.checks):
        return _Look(planning, node, present, None)
    return None


def _first_keys(look: _Look, decision: Decision) -> list[bytes]:
    states = [s for s in (look.state, look.base) if s is not None]
    keys = [look.key(c, s) for c in look.checks if c.predicate for s in states]
    keys += [_unique_key(look, c) for c in look.checks if c.of.unique]
    keys += [dropped_key(task) for task in _entered(look, decision)]
    return [*keys, _record(look)]


def _entered(look: _Look, decision: Decision) -> Sequence[bytes]:
    """The tasks of the partitions that come with this generation, where rows may have been dropped; one that gives
    many partitions once."""
    if not isinstance(decision.step, Commit) or not any(c.is_drop for c in look.node.checks):
        return ()
    tasks = tuple((decision.step.entered or {}).values())
    return tuple(dict.fromkeys(tasks)) if _is_dealt(look.node) else tasks


def _is_dealt(node: Source | Transform) -> bool:
    """One task gives all partitions."""
    return isinstance(node, Transform) and bool(node.key) and not any(slot.mode == "by" for slot in node.slots)


def _record(look: _Look) -> bytes:
    return record_key(look.planning.branch, look.node.dataset, look.state.generation)


# --- answers --------------------------------------------------------------------------------------


def _answer(look: _Look, memos: Mapping[bytes, Json]) -> Deciding[None]:
    conditions = []
    for check in look.checks:
        known = memos.get(look.key(check, look.state)) if check.predicate else None
        if check.of.rows is not None:
            look.answers[check.name] = verdicts.of_bounds(check.of.rows, look.state.rows)
        elif check.of.unique:
            _unique(look, check, memos)
        elif known is not None and known.get("after") is None:
            look.answers[check.name] = known
        else:
            conditions.append(check)
    if conditions:
        yield from _conditions(look, conditions, memos)


def _unique_key(look: _Look, check: Check) -> bytes:
    content = tree.totals(look.planning.world.nodes, look.state.root).content
    return part_key(check, slot_id(content, check.read_schema(look.state.schema)))


def _unique(look: _Look, check: Check, memos: Mapping[bytes, Json]) -> None:
    key = _unique_key(look, check)
    if look.state.rows == 0 or key in memos:
        look.answers[check.name] = memos.get(key, verdicts.NOTHING)
    else:
        look.need(check, key, "", look.state.rows, {}, {"": look.state.root.hex()})


def _conditions(look: _Look, checks: Sequence[Check], memos: Mapping[bytes, Json]) -> Deciding[None]:
    """Checks by row: on top of what is known of the present rows, or of none; many at first, from left to right."""
    from_base = {c.name: b for c in checks if (b := _known_base(look, c, memos)) is not None}
    is_small = look.state.partitions <= look.planning.exact
    roots = {c.name: look.base.root if look.base and c.name in from_base else tree.EMPTY_ROOT for c in checks}
    by_difference = [c for c in checks if c.name in from_base or is_small]
    if by_difference:
        yield from _by_difference(look, by_difference, roots, from_base)
    for check in checks:
        if check not in by_difference:
            yield from _in_order(look, check, memos.get(look.key(check, look.state)))


def _known_base(look: _Look, check: Check, memos: Mapping[bytes, Json]) -> Answer | None:
    """What a check found in the present rows, where it looks at the new ones in the same way."""
    if look.base is None or check.read_schema(look.base.schema) != check.read_schema(look.state.schema):
        return None
    known: Answer | None = memos.get(look.key(check, look.base))
    return None if known is None or known.get("after") is not None else known


def _by_difference(
    look: _Look, checks: Sequence[Check], roots: Mapping[str, bytes], known: Mapping[str, Answer]
) -> Deciding[None]:
    distinct = list(dict.fromkeys(roots[c.name] for c in checks))
    found = yield from lookups.changes([(root, look.state.root) for root in distinct])
    changes = dict(zip(distinct, found, strict=True))
    keyed = {c.name: _keyed(look, c, _entries(changes[roots[c.name]])) for c in checks}
    _, memos = yield from lookups.remembered([], list({k for of in keyed.values() for k in of.values()}))
    for check in checks:
        mine, keys = changes[roots[check.name]], keyed[check.name]
        if missing := [e for e in _entries(mine) if e.content.rows and keys[e] not in memos]:
            _need_all(look, check, missing, keys)
            continue
        before = [(c.key, memos[keys[c.before]]) for c in mine if c.before and c.before.content.rows]
        after = [(c.key, memos[keys[c.after]]) for c in mine if c.after and c.after.content.rows]
        rest = verdicts.without(known.get(check.name, verdicts.NOTHING), before, {c.key for c in mine})
        _note(look, check, verdicts.plus(rest, after))


def _entries(changes: Iterable[tree.EntryChange]) -> list[tree.Entry]:
    return [entry for change in changes for entry in (change.before, change.after) if entry is not None]


def _keyed(look: _Look, check: Check, entries: Iterable[tree.Entry]) -> dict[tree.Entry, bytes]:
    schema = check.read_schema(look.state.schema)
    return {e: part_key(check, slot_id(e.content, schema)) for e in entries if e.content.rows}


def _need_all(look: _Look, check: Check, entries: Iterable[tree.Entry], keys: Mapping[tree.Entry, bytes]) -> None:
    for entry in entries:
        spec = {"slots": {"": [entry.fragment.hex()]}}
        look.need(check, keys[entry], entry.key, entry.content.rows, spec)


def _in_order(look: _Look, check: Check, known: Answer | None) -> Deciding[None]:
    """So many partitions that one pass does not look at all: each goes on where the last one came to."""
    at, limit = known or verdicts.NOTHING, windows.limit(look.planning, look.state.partitions)
    start = at.get("after") or ""
    entries = (e for e in tree.scan(look.planning.world.nodes, look.state.root, start) if not known or e.key != start)
    open_before, is_gapless = len(look.tasks), True
    for _ in range(windows.CHUNKS if limit else 0):
        chunk = list(islice(entries, windows.CHUNK))
        keys = _keyed(look, check, chunk)
        _, memos = yield from lookups.remembered([], list(keys.values()))
        missing = [e for e in chunk if e in keys and keys[e] not in memos]
        is_gapless = is_gapless and not missing
        if is_gapless:
            at = verdicts.plus(at, [(e.key, memos[keys[e]]) for e in chunk if e in keys])
            at["after"] = chunk[-1].key if len(chunk) == windows.CHUNK else None
        _need_all(look, check, missing, keys)
        if len(look.tasks) - open_before >= limit or len(chunk) < windows.CHUNK:
            break
    if is_gapless and limit and at.get("after") is None:
        _note(look, check, at)
    else:
        look.is_whole = False
        if at.get("after") is not None and at != known:
            look.notes[look.key(check, look.state)] = at


def _note(look: _Look, check: Check, answer: Answer) -> None:
    look.answers[check.name] = answer
    look.notes[look.key(check, look.state)] = answer


# --- decisions ------------------------------------------------------------------------------------


def _waiting(look: _Look, decision: Decision) -> Deciding[Decision]:
    """Not all has been seen yet: ask for what is missing."""
    known = yield from lookups.tasks(list(look.tasks))
    failed = [known[key] for key in look.tasks if key in known and known[key].state == "failed"]
    cause = look.state.cause if isinstance(decision.step, Commit) else "logic"
    items = decision.items or (Item(look.node.dataset, "check", cause, False, 0, _partitions(look)),)
    pending = union([i.keys for i in decision.items]) if isinstance(decision.step, Commit) else None
    found = Decision(look.node.dataset, "stale", items=items, reason=WAITING, pending=pending)
    limit = windows.limit(look.planning, len(look.tasks))
    step = RunChecks(tuple(islice(look.tasks.values(), limit)), look.jobs, look.notes)
    if failed and len(failed) == len(look.tasks):
        return replace(found, status="failed", error=failed[0].error, step=step)
    return replace(found, status="building" if known else "stale", step=step)


def _partitions(look: _Look) -> Keys:
    if look.is_whole:
        return listed(sorted({t.partition for t in look.tasks.values()}))
    return lacking(look.planning.world.nodes, look.state.root)


def _settled(look: _Look, decision: Decision, memos: Mapping[bytes, Json]) -> Decision:
    results = [verdicts.result(c, look.answers[c.name]) for c in look.checks]
    broken = [c for c, r in zip(look.checks, results, strict=True) if r["state"] == "failed"]
    dropped = _dropped(look, decision, memos)
    found = replace(decision, checks=(*results, *dropped))
    if broken:
        error = verdicts.failure(broken[0], look.answers[broken[0].name])
        step = RunChecks((), {}, look.notes) if look.notes else Keep()
        stays = look.base or (look.state if isinstance(decision.step, Keep) else None)
        reason = verdicts.reason(len(broken), stays.generation if stays else 0)
        return replace(found, status="failed", error=error, reason=reason, step=step)
    before = memos.get(_record(look)) or {}
    record = {**before, **{r["name"]: r for r in found.checks}}
    notes = look.notes | ({_record(look): record} if record != before else {})
    if isinstance(decision.step, Commit):
        return replace(found, step=replace(decision.step, notes=notes))
    return replace(found, step=RunChecks((), {}, notes)) if notes else found


def _dropped(look: _Look, decision: Decision, memos: Mapping[bytes, Json]) -> list[Json]:
    """What was left out of the partitions that come with a new generation."""
    step = decision.step
    if not isinstance(step, Commit) or (look.base and look.base.generation == look.state.generation):
        return []
    known = step.entered is not None and look.planning.building(look.node.dataset) is None
    counts = [memos.get(dropped_key(task), {}) for task in _entered(look, decision)]
    return [verdicts.dropped(c, counts if known else None) for c in look.node.checks if c.is_drop]

"""Partial results of a transform that aggregates: one per partition of an input, kept so that a change costs little.

They are a hidden dataset, partition of the input -> a fragment of partial aggregates, that follows the input by
difference and is remembered with the state it was used for. The task of the output is the same as without them: its
result does not change, only how it is computed. Where memory knows the result, no part is computed at all.

    _chosen       no input has mergeable parts                 -> None: the plain query
      | input and query
    _types        parts of these types do not come together    -> None
      |
    _present        no parts are right any more, for another
                  input has changed                            -> None
      | parts that are there
    _advance      memory has all of the others                 -> is_whole: they can be merged
                  some are missing                             -> `compute` asks for them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.model.jobs import FragmentsSpec, StoredSqlJob, StoredTransformJob
from controlplane.core.model.memos import known_schema_in
from controlplane.core.model.states import Consumed
from controlplane.core.model.tasks import Task
from controlplane.core.plan import lookups, salts, windows
from controlplane.core.plan.keys import lacking, listed
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.transform.case import NOT_LOOKED_UP, Case, half_built, item_of, uncertain
from controlplane.core.plan.transform.inputs import Input
from controlplane.core.plan.transform.jobs import Divided, column_types, cost_of, divided, part_job, whole_job
from controlplane.core.plan.values import Decision, Learn
from controlplane.core.sql import Unproven
from dataplane.contract.identity import slot_id, task_key
from dataplane.contract.schemas import Schema

PARTS, PARTED = "/parts", "/parted"  # end the names under which states remember them, and what they hold for
NAMES = (PARTS, PARTED)


@dataclass(slots=True)
class PartialsFollowing:
    """Parts on their way to an input. `root` is the tree of the present ones; `window` holds the missing ones."""

    case: Case
    of: Input
    query: Divided
    logic: bytes
    root: bytes
    count: int = 0  # of missing parts, at most
    window: windows.Window = field(default_factory=windows.Window)
    is_typed: bool = True  # that parts come together exactly is known

    @property
    def is_whole(self) -> bool:
        return self.window.is_whole and not self.window.missing

    @property
    def job(self) -> StoredSqlJob:
        logic = part_job(self.case.node, self.case.schemas, self.of.slot.name, self.query)
        others = [i for i in self.case.inputs if i is not self.of]
        return {**logic, "shared": {i.slot.name: i.of.root.hex() for i in others}}


def follow(case: Case) -> Deciding[PartialsFollowing | None]:
    """Where the parts stand; None where the plain query is to be run."""
    if not _may_be_parted(case):
        return None
    chosen = _chosen(case)
    if chosen is None:
        return None
    of, query = chosen
    types = yield from _types(case, query)
    if types is not None and not query.split.comes_together(types):
        return None
    logic = _logic(case, of, query)
    present = _present(case, of, logic)
    # All parts are outdated: then one query costs less.
    if present is None and _has_moved_beside(case, of):
        return None
    root = yield from _still_right(case, of, present)
    is_typed = types is not None or not query.split.depends_on_types
    following = PartialsFollowing(case, of, query, logic, root, is_typed=is_typed)
    yield from _advance(following)
    return following


def _may_be_parted(case: Case) -> bool:
    node = case.node
    # Only a query whose output is one function of whole inputs is taken apart.
    if case.parted or node.query is None:
        return False
    # Not proven for volatile queries, nor for names that differ in case only.
    return not (node.is_volatile or node.is_case_sensitive)


def _chosen(case: Case) -> tuple[Input, Divided] | None:
    """The input with the most rows, among those that have many partitions and whose parts can be merged."""
    assert case.node.query is not None
    verdicts = case.node.query.verdicts()
    mergeable = {name.lower() for name, verdict in verdicts.items() if verdict.merge is not None}
    candidates: list[tuple[int, Input]] = []
    for i in case.inputs:
        totals = tree.totals(case.planning.world.nodes, i.of.root)
        if i.slot.name.lower() in mergeable and totals.partitions >= case.planning.fewest:
            candidates.append((totals.content.rows, i))
    for _, i in sorted(candidates, key=lambda candidate: -candidate[0]):
        query = divided(case.node, i.slot.name)
        if query is not None:
            return i, query
    return None


def _types(case: Case, query: Divided) -> Deciding[Mapping[str, str] | None]:
    """The types of the columns of parts, where they matter and are known."""
    if not query.split.depends_on_types:
        return None
    key = _analysis(case, query)
    _, memos = yield from lookups.remembered([], [key])
    if key not in memos:
        return None
    return column_types(known_schema_in(memos[key]))


def _analysis(case: Case, query: Divided) -> bytes:
    """Under which the schema of parts is remembered."""
    return ids.analysis_key(_part_logic(case, query, {}), case.schemas)


def _part_logic(case: Case, query: Divided, others: Mapping[str, bytes]) -> bytes:
    """The logic of the query of parts. `others`: slots of its inputs beside the partition."""
    node = case.node
    return ids.part_logic(query.digest, dict(node.body.params), node.spark, node.semantics, others)


def _logic(case: Case, of: Input, query: Divided) -> bytes:
    """The logic of the tasks of parts, including all that they read beside the partition."""
    others = {i.slot.name: slot_id(i.content(case.planning), i.schema) for i in case.inputs if i is not of}
    salt = salts.of_output(case.planning, case.node)
    if salt:
        others["/salt"] = salt
    return _part_logic(case, query, others)


def _has_moved_beside(case: Case, of: Input) -> bool:
    """Whether another input has changed since the last time, or all of it is forced to be done again."""
    if case.state is None:
        return False
    if not salts.is_of(case.planning, case.node, case.state):
        return True
    nodes = case.planning.world.nodes
    for i in case.inputs:
        was = case.state.inputs.get(i.slot.name)
        if i is of or was is None:
            continue
        if tree.totals(nodes, was.root).content != i.content(case.planning):
            return True
    return False


# --- memos ------------------------------------------------------------------------------------------


def remembered(following: PartialsFollowing) -> dict[str, Consumed]:
    """The inputs to remember with a state: the tree of the present parts, and the root of the input for which they
    hold."""
    of = following.of
    return {
        f"{of.slot.name}{PARTS}": Consumed(of.slot.dataset, following.root, following.logic),
        f"{of.slot.name}{PARTED}": Consumed(of.slot.dataset, of.of.root, of.consumed.schema),
    }


def _present(case: Case, of: Input, logic: bytes) -> tuple[bytes, bytes] | None:
    """The tree of parts, and the root of the input for which it holds."""
    building = case.planning.building(case.node.dataset)
    for made in (building, case.state):
        if made is None:
            continue
        parts = made.inputs.get(f"{of.slot.name}{PARTS}")
        parted = made.inputs.get(f"{of.slot.name}{PARTED}")
        if parts is None or parted is None:
            continue
        if parts.schema == logic and parted.schema == of.consumed.schema:
            return parts.root, parted.root
    return None


def _still_right(case: Case, of: Input, present: tuple[bytes, bytes] | None) -> Deciding[bytes]:
    """The parts of partitions that have not changed."""
    if present is None:
        return tree.EMPTY_ROOT
    root, parted = present
    [changes] = yield from lookups.diffs([(parted, of.of.root)])
    changed_keys = [c.key for c in changes if c.before is not None]
    yield from lookups.nodes([(root, changed_keys)])
    return tree.edit(case.planning.world.nodes, root, [(key, None) for key in changed_keys])


# --- tasks ------------------------------------------------------------------------------------------


def _advance(following: PartialsFollowing) -> Deciding[None]:
    """Take in what memory has, until as many tasks are missing as may be open."""
    planning, input_root = following.case.planning, following.of.of.root
    yield from lookups.nodes([(input_root, ()), (following.root, ())])
    missing = lacking(planning.world.nodes, input_root, following.root)
    following.count = missing.count
    if missing.count == 0:
        return
    limit = windows.limit(planning, missing.count)
    if limit == 0:
        following.window.is_whole = False
        return
    keys = yield from windows.hole_keys(planning, [input_root], following.root, missing.count)

    def tasks(some: Sequence[str]) -> Deciding[dict[str, Task]]:
        return (yield from _tasks(following, some))

    following.window = yield from windows.look(keys, tasks, limit)
    following.root = yield from windows.edited(planning, following.root, following.window, ())


def _tasks(following: PartialsFollowing, keys: Sequence[str]) -> Deciding[dict[str, Task]]:
    of = following.of
    yield from lookups.nodes([(of.of.root, keys)])
    entries = tree.lookup(following.case.planning.world.nodes, of.of.root, keys)
    job = ids.job_id(following.job)
    return {key: _task(following, job, entry) for key, entry in entries.items()}


def _task(following: PartialsFollowing, job: bytes, entry: tree.Entry) -> Task:
    node, slot = following.case.node, following.of.slot.name
    of = node.component
    key = task_key(following.logic, {slot: slot_id(entry.content, following.of.schema)})
    spec: FragmentsSpec = {"slots": {slot: [entry.fragment.hex()]}}
    is_batched = following.query.split.labelled is not None
    cost = cost_of(entry.content.rows, is_batched=is_batched)
    return Task(
        key,
        "transform",
        node.maker,
        partition=entry.key,
        job=job,
        spec=spec,
        size_bytes=cost,
        priority=of.priority,
        size=of.resources,
    )


def compute(following: PartialsFollowing) -> Decision:
    """Ask for missing parts; the task that merges them comes after."""
    case, window = following.case, following.window
    parts = tree.totals(case.planning.world.nodes, following.of.of.root).partitions
    is_merged_at_once = parts <= case.planning.widest
    missing = len(window.tasks) if window.is_whole else following.count
    item = item_of(case, "compute", missing + 1, listed(("",)))
    if not window.is_whole:
        item = uncertain(item, NOT_LOOKED_UP)
    elif not is_merged_at_once:
        item = uncertain(item, "parts are merged in steps, and equal steps are one")
    decision = Decision(case.node.dataset, "stale", items=(item,), pending=item.keys)
    if windows.limit(case.planning, following.count) == 0:
        return decision  # the tasks are only counted
    # Parts are collected over several passes: a partial root remembers those that are there.
    building = None
    if following.count > case.planning.exact:
        case = replace(case, parts=remembered(following))
        building = half_built(case, tree.EMPTY_ROOT, None)
    return windows.computing(decision, window, following.job, building)


def analyse(following: PartialsFollowing) -> Deciding[Decision | None]:
    """Ask Spark for the types of parts before any is computed, perhaps in vain. None: Spark cannot determine them."""
    case = following.case
    key = _analysis(case, following.query)
    job = part_job(case.node, case.schemas, following.of.slot.name, following.query)
    task = Task(key, "analyse", case.node.maker, "", ids.job_id(job), {})
    queued = yield from lookups.tasks([key])
    status, error = windows.learning(task, queued)
    if error is not None:
        return None
    return replace(compute(following), status=status, step=Learn((task,), job), reason="analysis")


def schema_of(following: PartialsFollowing) -> Deciding[Schema]:
    """The schema of computed parts."""
    first = next(iter(tree.scan(following.case.planning.world.nodes, following.root)))
    fragments = yield from lookups.fragments([first.fragment])
    return fragments[first.fragment].schema


def merge_job(
    following: PartialsFollowing, job: StoredTransformJob, schema: Schema, root: bytes
) -> StoredSqlJob | None:
    """The job of the whole over a tree of parts with this schema; None where their types do not come together
    exactly."""
    try:
        edits = following.query.split.whole(column_types(schema))
    except Unproven:
        return None
    assert job["language"] == "sql"
    return whole_job(job, following.of.slot.name, following.query, edits, schema, root)


def carried(case: Case) -> Iterator[tuple[str, Consumed]]:
    """What the present state remembers of parts, for the next one: they may be of use again."""
    if case.state is None:
        return
    for name, consumed in case.state.inputs.items():
        if name.endswith(NAMES):
            yield name, consumed

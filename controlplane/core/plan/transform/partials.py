"""Partial results of a transform that aggregates: one per partition of an input, kept so that a
change costs little.

They are a hidden dataset, partition of the input -> a fragment of partial aggregates, that follows
the input by difference and is remembered with the state it was used for. The task of the output is
the same as without them: its result does not change, only how it is computed. Where memory knows
the result, no part is computed at all.

    _chosen       no input has mergeable parts                 -> None: the plain query
      | input and query
    _types        parts of these types do not come together    -> None
      |
    PARTIALS      no parts are right any more, for another
                  input has changed                            -> None
      | parts that are there
    Partials      memory has all of the others                 -> is_whole: they can be merged
                  some are missing                             -> `compute` asks for them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Transform
from controlplane.core.model.jobs import FragmentsSpec, StoredSqlJob, StoredTransformJob
from controlplane.core.model.memos import known_schema_in
from controlplane.core.model.states import PARTED, PARTS, Consumed
from controlplane.core.model.tasks import Task, Trace
from controlplane.core.plan import lookups, salts, unions, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Decision, Learn
from controlplane.core.plan.transform.case import (
    NOT_LOOKED_UP,
    Case,
    half_built,
    item_of,
    uncertain,
)
from controlplane.core.plan.transform.hidden_dataset import Hidden, Results
from controlplane.core.plan.transform.input_states import Input
from controlplane.core.plan.transform.transform_jobs import (
    Divided,
    column_types,
    divided,
    node_task,
    part_job,
    whole_job,
)
from controlplane.core.plan.unions import SliceTasks
from controlplane.core.plan.work_keys import listed
from controlplane.core.sql import Unproven
from dataplane.contract.identity import Content, slot_id, task_key
from dataplane.contract.schemas import Schema


@dataclass(slots=True)
class Partials(Hidden[Trace]):
    """Parts of the query, over the partitions of one input, on their way to its root."""

    query: Divided
    is_typed: bool  # that parts come together exactly is known

    TREES, DONE = (PARTS,), PARTED

    @property
    def parts(self) -> bytes:
        """The root of the tree of present parts."""
        return self.root(PARTS)

    @property
    def merged(self) -> bytes:
        """The root of the tree of parts to merge, once all are there."""
        return self.parts

    @property
    def is_wide(self) -> bool:
        """There are too many to merge them at once."""
        totals = tree.totals(self.case.nodes, self.read.of.root)
        return totals.partitions > self.case.planning.widest

    def width(self, root: bytes, level: int) -> int:  # noqa: ARG002
        """The most parts that one task would merge, if it merged those under `root`, after so many
        steps."""
        return tree.totals(self.case.nodes, root).partitions

    def leaves(self, root: bytes, level: int) -> dict[str, tree.Totals]:  # noqa: ARG002
        """The leaves of this tree that are merged in the next step, by their last keys; none where
        a step is of no use."""
        return dict(tree.leaf_totals(self.case.nodes, root))

    def changes(self) -> Deciding[Iterable[tree.EntryChange]]:
        """The partitions that have no part that is right, as additions."""
        yield from self._still_right()
        root = self.read.of.root
        yield from self.compare(self.parts)
        if self.count == 0:
            return ()
        keys = yield from windows.hole_keys(self.case.planning, [root], self.parts, self.count)
        if isinstance(keys, list):
            yield from lookups.nodes([(root, keys)])
        return self._additions(iter(keys))

    def _still_right(self) -> Deciding[None]:
        """Take out the parts of partitions that have changed."""
        before = self.root(PARTED)
        if before != tree.EMPTY_ROOT:
            [changes] = yield from lookups.diffs([(before, self.read.of.root)])
            changed_keys = [c.key for c in changes if c.before is not None]
            yield from lookups.nodes([(self.parts, changed_keys)])
            self.put({PARTS: dict.fromkeys(changed_keys)})
        self.trees[self.read.slot.name + PARTED] = self.read.consumed

    def _additions(self, keys: Iterator[str]) -> Iterator[tree.EntryChange]:
        while chunk := list(islice(keys, self.CHUNK)):
            for key, entry in tree.lookup(self.case.nodes, self.read.of.root, chunk).items():
                yield tree.EntryChange(key, None, entry)

    def united(self, spans: Sequence[tree.Entry]) -> Deciding[Mapping[tree.Entry, Trace]]:
        """The parts of slices together, which merge to the same. A part of the span has other
        rows: so this is no result of its task."""
        planning, home = self.case.planning, self.case.node.dataset
        members = yield from unions.members_of(planning, self.read.slot.dataset, spans)
        tasks = {
            span: (
                self._key(span.content),
                SliceTasks.of(of, lambda member: self._key(member.content)),
            )
            for span, of in members.items()
        }
        results: dict[tree.Entry, Trace] = {}
        for span, part in (yield from unions.united(home, tasks)).items():
            assert part.trace is not None
            planning.add_union(home, replace(part, trace=None))
            results[span] = part.trace
        return results

    def _key(self, content: Content) -> bytes:
        slot = self.read.slot.name
        return task_key(self.mark, {slot: slot_id(content, self.read.schema)})

    def task(self, partition: tree.Entry, job: bytes) -> Task:
        slot = self.read.slot.name
        key = self._key(partition.content)
        spec: FragmentsSpec = {"slots": {slot: [partition.fragment.hex()]}}
        is_batched = self.query.split.labelled is not None
        return node_task(
            self.case.node,
            key,
            job,
            spec,
            partition.content.rows,
            partition.key,
            is_batched=is_batched,
        )

    def edit(self, changes: Sequence[tree.EntryChange], results: Results[Trace]) -> Deciding[None]:
        window = windows.Window({c.key: (results[c.after].task, results[c.after]) for c in changes})
        self.window.hits.update(window.hits)
        edits = {key: entry for key, (_, entry) in window.entries.items()}
        yield from lookups.nodes([(self.parts, sorted(edits))])
        self.put({PARTS: edits})


P = TypeVar("P", bound=Partials)


def follow(case: Case) -> Deciding[Partials | None]:
    """Where the parts stand; None where the plain query is to be run. Only for a query whose output
    is one function of whole inputs."""
    chosen = None if case.parted else chosen_input(case)
    if chosen is None:
        return None
    return (yield from follow_by(case, *chosen, Partials))


def follow_by(case: Case, of: Input, query: Divided, kind: Callable[..., P]) -> Deciding[P | None]:
    """By the partitions of this input. `kind` makes the hidden dataset."""
    types = yield from _types(case, query)
    if types is not None and not query.split.comes_together(types):
        return None
    is_typed = types is not None or not query.split.depends_on_types
    mark, job = _logic(case, of, query), _job(case, of, query)
    partials = kind(case, of, mark, job, lookups.traces, query=query, is_typed=is_typed)
    # All parts are outdated: then one query costs less.
    if partials.root(PARTED) == tree.EMPTY_ROOT and _has_moved_beside(case, of):
        return None
    yield from partials.follow()
    return partials


def _job(case: Case, of: Input, query: Divided) -> StoredSqlJob:
    others = [i for i in case.inputs if i is not of]
    logic = part_job(case.node, case.schemas, of.slot.name, query)
    return {**logic, "shared": {i.slot.name: i.of.root.hex() for i in others}}


def chosen_input(case: Case) -> tuple[Input, Divided] | None:
    """The input with the most rows, among those that have many partitions and whose parts can be
    merged. If one is read by key, only that one."""
    node = case.node
    mergeable = mergeable_inputs(node)
    candidates: list[tuple[int, Input]] = []
    for i in case.parted or case.inputs:
        totals = tree.totals(case.nodes, i.of.root)
        if i.slot.name.lower() in mergeable and totals.partitions >= case.planning.fewest:
            candidates.append((totals.content.rows, i))
    for _, i in sorted(candidates, key=lambda candidate: -candidate[0]):
        query = divided(case.node, i.slot.name)
        if query is not None:
            return i, query
    return None


def mergeable_inputs(node: Transform) -> frozenset[str]:
    """The inputs, in lower case, whose parts can be merged. Not proven for volatile queries, nor
    for names that differ in case only."""
    if node.query is None or node.is_volatile or node.is_case_sensitive:
        return frozenset()
    verdicts = node.query.verdicts().items()
    return frozenset(name.lower() for name, verdict in verdicts if verdict.merge is not None)


def _types(case: Case, query: Divided) -> Deciding[Mapping[str, str] | None]:
    """The types of the columns of parts, where they matter and are known."""
    if not query.split.depends_on_types:
        return None
    key = _analysis(case, query)
    memos = yield from lookups.memos([key])
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
    others = {
        i.slot.name: slot_id(i.content(case.planning), i.schema) for i in case.inputs if i is not of
    }
    salt = salts.of_output(case.planning, case.node)
    if salt:
        others["/salt"] = salt
    return _part_logic(case, query, others)


def _has_moved_beside(case: Case, of: Input) -> bool:
    """Whether another input has changed since the last time, or all of it is forced to be done
    again."""
    if case.state is None:
        return False
    if not salts.is_of(case.planning, case.node, case.state):
        return True
    for i in case.inputs:
        was = case.state.inputs.get(i.slot.name)
        if i is of or was is None:
            continue
        if tree.totals(case.nodes, was.root).content != i.content(case.planning):
            return True
    return False


def compute(partials: Partials) -> Decision:
    """Ask for missing parts; the task that merges them comes after."""
    case = partials.case
    item = item_of(case, "compute", partials.missing + 1, listed(("",)))
    if not partials.window.is_whole:
        item = uncertain(item, NOT_LOOKED_UP)
    elif partials.is_wide:
        item = uncertain(item, "parts are merged in steps, and equal steps are one")
    building = None
    if partials.is_windowed and not case.parted:
        building = half_built(replace(case, parts=partials.trees), tree.EMPTY_ROOT, None)
    return partials.request(item, building)


def analyse(partials: Partials) -> Deciding[Decision | None]:
    """Ask Spark for the types of parts before any is computed, perhaps in vain. None: Spark cannot
    determine them."""
    case = partials.case
    key = _analysis(case, partials.query)
    job = part_job(case.node, case.schemas, partials.read.slot.name, partials.query)
    task = Task(key, "analyse", case.node.maker, "", ids.job_id(job), {})
    status, error = yield from windows.learning(task)
    if error is not None:
        return None
    return replace(compute(partials), status=status, step=Learn((task,), job), reason="analysis")


def schema_of(partials: Partials) -> Deciding[Schema]:
    """The schema of computed parts."""
    first = next(iter(tree.scan(partials.case.nodes, partials.parts)))
    fragments = yield from lookups.fragments([first.fragment])
    return fragments[first.fragment].schema


def merge_job(
    partials: Partials, job: StoredTransformJob, schema: Schema, root: bytes
) -> StoredSqlJob | None:
    """The job of the whole over a tree of parts with this schema; None where their types do not
    come together exactly."""
    try:
        edits = partials.query.split.second_query(column_types(schema))
    except Unproven:
        return None
    assert job["language"] == "sql"
    return whole_job(job, partials.read.slot.name, partials.query, edits, schema, root)


def carried(case: Case) -> Iterator[tuple[str, Consumed]]:
    """What the present state remembers of parts, for the next one: they may be of use again."""
    if case.state is None:
        return
    for name, consumed in case.state.inputs.items():
        if name.endswith((PARTS, PARTED)):
            yield name, consumed

"""The key index of an input that is read `by` a key: a hidden dataset that follows the input,
edited by difference.

For each partition of the input, a task lists the output keys in it, and the content of the rows of
each. The answer is memoised under the content of the partition. Two trees are made from the
answers:

    pairs   (output key, input partition) -> the fragment, and the content of these rows in it
    keys    output key -> the sum over its pairs

A `by` input is then planned as an `each` input over `keys`: rows that only moved between partitions
leave it as it is. Which fragments a task reads is the range of its key in `pairs`, looked up when
the task is claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.compile.sort_by import sort_fault
from controlplane.core.model.jobs import FragmentsSpec
from controlplane.core.model.memos import Memo, contents_in
from controlplane.core.model.roll_ups import MemberContent
from controlplane.core.model.states import KEYS, PAIRS
from controlplane.core.model.tasks import Task
from controlplane.core.partitioning import column_fault, key_parts
from controlplane.core.plan import lookups, unions
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import ROW_COST, user_error
from controlplane.core.plan.transform.case import Case
from controlplane.core.plan.transform.hidden_dataset import Hidden, Results
from controlplane.core.plan.transform.input_states import Input
from controlplane.core.plan.unions import SliceTasks
from controlplane.core.schema.ddl_schemas import EMPTY_SCHEMA
from dataplane.contract.identity import EMPTY, Content, fragment_id
from dataplane.contract.jobs import IndexJob
from dataplane.contract.keys import KeyPart, pair_key
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema


def key_fault(node: Transform, slot: Slot, schema: Schema) -> str | None:
    """Why no keys can be made of this input's columns."""
    for part, column in zip(node.key, slot.columns, strict=True):
        fault = column_fault(schema, part, column, case_sensitive=node.is_case_sensitive)
        if fault:
            return f"{slot.name}: {fault}"
    return None


def output_error(node: Transform, schema: Schema) -> TaskError | None:
    """Why no keys can be made of the output's columns, or rows not be sorted by them."""
    for part in node.key:
        fault = column_fault(schema, part, part.column, case_sensitive=node.is_case_sensitive)
        if fault:
            return user_error("invalid-key-column", f"partition_by: {fault}")
    fault = sort_fault(node.component, schema, case_sensitive=node.is_case_sensitive)
    if fault:
        return user_error("invalid-sort-column", fault)
    return None


def slot_parts(node: Transform, slot: Slot, schema: Schema) -> list[KeyPart]:
    """How the output's key is read off rows of this input."""
    return key_parts(node.key, slot.columns, schema, case_sensitive=node.is_case_sensitive)


def output_parts(node: Transform) -> list[KeyPart]:
    """How it is read off rows of the output, whose columns are found by the session's rules for
    names."""
    columns = [part.column for part in node.key]
    return key_parts(node.key, columns, EMPTY_SCHEMA, case_sensitive=node.is_case_sensitive)


# --- following the input --------------------------------------------------------------------------


def follow(case: Case, read: Input) -> Deciding[KeyIndex]:
    """The index of an input as far as memory has it."""
    node, schema = case.node, read.schema
    parts = slot_parts(node, read.slot, schema)
    job: IndexJob = {"schema": schema, "key": parts, "timezone": str(node.spark["timezone"])}
    index = KeyIndex(case, read, ids.index_id(schema, parts, job["timezone"]), job, lookups.memos)
    if index.root(index.DONE) != read.of.root:
        yield from index.follow()
    return index


class KeyIndex(Hidden[Memo]):
    """The index of an input, on its way to the input's root."""

    TREES = (KEYS, PAIRS)
    CHUNK = 500

    def changes(self) -> Deciding[Iterable[tree.EntryChange]]:
        """The partitions in which the input differs from its indexed part; if they are many, one
        after the other."""
        done, root = self.root(self.DONE), self.read.of.root
        yield from self.compare(done)
        if self.count > self.case.planning.exact:
            return tree.diff(self.case.nodes, done, root)
        [changes] = yield from lookups.diffs([(done, root)])
        self.count = len(changes)
        return changes

    def task(self, partition: tree.Entry, job: bytes) -> Task | None:
        if not partition.content.rows:
            return None
        node, of = self.case.node, self.case.node.component
        spec: FragmentsSpec = {"slots": {"": [partition.fragment.hex()]}}
        return Task(
            ids.index_key(self.mark, partition.content),
            "index",
            node.dataset,
            partition=partition.key,
            job=job,
            spec=spec,
            size_bytes=partition.content.rows * ROW_COST,
            priority=of.priority,
            size=of.resources,
        )

    def united(self, spans: Sequence[tree.Entry]) -> Deciding[Mapping[tree.Entry, Memo]]:
        """The sums of the answers about slices."""
        planning = self.case.planning
        members = yield from unions.members_of(planning, self.read.slot.dataset, spans)
        tasks = {span: self._tasks_of(of) for span, of in members.items()}
        answers = yield from unions.complete(tasks, lookups.memos)
        return {span: unions.summed(map(contents_in, of)) for span, of in answers.items()}

    def _tasks_of(self, members: Iterable[MemberContent]) -> SliceTasks:
        with_rows = [member for member in members if member.content.rows]
        return SliceTasks.of(with_rows, lambda member: ids.index_key(self.mark, member.content))

    def edit(self, changes: Sequence[tree.EntryChange], results: Results[Memo]) -> Deciding[None]:
        pairs, moved = self._moved(changes, results)
        done = {change.key: change.after for change in changes}
        edited = ((self.DONE, done), (PAIRS, pairs), (KEYS, moved))
        yield from lookups.nodes([(self.root(name), sorted(edits)) for name, edits in edited])
        present = tree.lookup(self.case.nodes, self.root(KEYS), moved)
        sums: dict[str, tree.Entry | None] = {}
        for key, content in moved.items():
            if key in present:
                content = present[key].content.plus(content)
            sums[key] = _entry(self.read.schema, key, content)
        self.put({self.DONE: done, PAIRS: pairs, KEYS: sums})

    def _moved(
        self, changes: Sequence[tree.EntryChange], answers: Results[Memo]
    ) -> tuple[dict[str, tree.Entry | None], dict[str, Content]]:
        """Edits of pairs, and by how much the content of each key changes."""
        pairs: dict[str, tree.Entry | None] = {}
        moved: dict[str, Content] = {}
        for change in changes:
            # First what the partition held is taken away, then what it holds is added.
            for key, content in self._before(change, answers):
                pairs[pair_key(key, change.key)] = None
                moved[key] = moved.get(key, EMPTY).minus(content)
            after = change.after
            if after is None or after not in answers:
                continue
            for key, content in contents_in(answers[after]):
                pair = pair_key(key, change.key)
                pairs[pair] = tree.Entry(pair, after.fragment, content)
                moved[key] = moved.get(key, EMPTY).plus(content)
        return pairs, moved

    def _before(
        self, change: tree.EntryChange, answers: Results[Memo]
    ) -> Iterable[tuple[str, Content]]:
        """The keys that the partition held, with the content of each."""
        before = change.before
        if before is None or not before.content.rows:
            return ()
        if before in answers:
            return contents_in(answers[before])
        return self._searched(change.key)

    def _searched(self, partition: str) -> Iterator[tuple[str, Content]]:
        """The same from the tree of pairs, all of which is read: where the answer is no longer
        remembered."""
        end = pair_key("", partition)
        for entry in tree.scan(self.case.nodes, self.root(PAIRS)):
            _, _, of = entry.key.partition(" ")
            if of == partition:
                yield entry.key.removesuffix(end), entry.content


def _entry(schema: Schema, key: str, content: Content) -> tree.Entry | None:
    """The entry of a key that some row has; None without rows. No fragment holds just these rows,
    but it is named as if one did."""
    if not content.rows:
        return None
    return tree.Entry(key, fragment_id(schema, content), content)

"""Results over rolled-up slices without a task: the results of the slices, as one.

Row-wise work over a span gives the union of what it gives over the slices of the span
(`core.model.roll_ups`). So where memory has the results of all slices, the result of the span is
a fragment with all of their files, and its content is the sum of theirs. Its own memo names the
slices to what reads the dataset.

    a span of a topic       memo of its source    -> parse tasks of 360 slices -> traces -> a union
    an `each` input         memo of its fragment  -> tasks of 360 slices       -> traces -> a union
    an index of an input    memo of its fragment  -> answers about 360 slices  -> their sums by key
    parts of an aggregate   memo of its fragment  -> parts of 360 slices       -> a union

Where a result of a slice is missing, the task of the span is requested. It gives the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, islice
from typing import Final, TypeAlias, TypeVar

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.model.memos import Memo
from controlplane.core.model.roll_ups import (
    K,
    MemberContent,
    MemberSource,
    SliceUnion,
    contents_in,
    is_span,
    sources_in,
)
from controlplane.core.model.tasks import Fragment, Task, Trace
from controlplane.core.plan import lookups
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Planning
from controlplane.core.plan.windows import UNDER_WAY, Hits
from dataplane.contract.identity import EMPTY, Content, fragment_id, union_id

# The results of tasks that memory lacks, and the tasks that are left
Elsewhere: TypeAlias = tuple[Hits, dict[str, Task]]
MembersOf: TypeAlias = "Callable[[Sequence[str]], Deciding[Mapping[str, SliceTasks]]]"
Lookup: TypeAlias = "Callable[[Sequence[bytes]], Deciding[Mapping[bytes, R]]]"
ONLY: Final = frozenset({""})  # the outputs of a task with one result
SPANS_A_TIME: Final = 200  # whose members are in memory: 20,000
S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SliceTasks:
    """The slices of a span, and the key of the task of each, which is computed when it is
    needed."""

    names: Sequence[str]
    key_at: Callable[[int], bytes]

    @staticmethod
    def of(members: Sequence[K], key_of: Callable[[K], bytes]) -> SliceTasks:
        return SliceTasks([member.key for member in members], lambda at: key_of(members[at]))

    @property
    def keys(self) -> list[bytes]:
        return [self.key_at(at) for at in range(len(self.names))]

    @property
    def ends(self) -> set[bytes]:
        """The tasks of the first and the last slice."""
        return {self.key_at(0), self.key_at(-1)}


def union_slot(node: Transform) -> Slot | None:
    """The input of which a span gives the union of what its slices give: the only one that is read
    by partition, by proof. None where there is no such proof."""
    parted = [slot for slot in node.slots if slot.mode != "all"]
    if len(parted) != 1 or parted[0].mode != "each":
        return None
    if node.query is None or node.fold is not None or node.is_volatile:
        return None
    proven = {name.lower() for name, of in node.query.verdicts().items() if of.mode == "each"}
    return parted[0] if parted[0].name.lower() in proven else None


# --- members --------------------------------------------------------------------------------------


def members_of(
    planning: Planning, dataset: str, entries: Iterable[tree.Entry]
) -> Deciding[dict[tree.Entry, Sequence[MemberContent]]]:
    """The slices of those of the entries that are spans, as far as memory has them."""
    spans = [part for part in entries if is_span(part.key)]
    if not spans:
        return {}
    new = planning.unions_of(dataset)
    keys = [ids.members_key(span.fragment) for span in spans]
    memos = yield from lookups.memos(keys)
    members: dict[tree.Entry, Sequence[MemberContent]] = {}
    for span, key in zip(spans, keys, strict=True):
        if span.fragment in new:
            members[span] = new[span.fragment].members
        elif key in memos:
            members[span] = contents_in(memos[key])
    return {span: some for span, some in members.items() if _sum(some) == span.content}


def _sum(members: Iterable[MemberContent]) -> Content:
    return reduce(Content.plus, (member.content for member in members), EMPTY)


def source_members(
    spans: Mapping[str, bytes],
) -> Deciding[dict[str, list[MemberSource]]]:
    """The slices of spans of a topic with their source ids. `spans`: source ids by key."""
    keys = {span: ids.members_key(source) for span, source in spans.items()}
    memos = yield from lookups.memos(list(keys.values()))
    return {span: sources_in(memos[key]) for span, key in keys.items() if key in memos}


# --- results --------------------------------------------------------------------------------------


def unrequested(spans: Mapping[S, Task]) -> Deciding[list[S]]:
    """Those of the spans whose tasks are not on the queue. A task was requested since memory lacked
    results of slices, so these are not looked up again in each pass."""
    if not spans:
        return []
    queued = yield from lookups.tasks([task.key for task in spans.values()])
    under_way = {key for key, task in queued.items() if task.state in UNDER_WAY}
    return [span for span, task in spans.items() if task.key not in under_way]


def traces_with(earlier_keys: Mapping[bytes, bytes]) -> Lookup[Trace]:
    """Looks up traces of tasks; of those that have none, by their earlier keys."""

    def lookup(keys: Sequence[bytes]) -> Deciding[dict[bytes, Trace]]:
        traces = dict((yield from lookups.traces(keys)))
        key_of = {
            earlier_keys[key]: key for key in keys if key not in traces and key in earlier_keys
        }
        if not key_of:
            return traces
        earlier = yield from lookups.traces(sorted(key_of))
        return traces | {key_of[key]: trace for key, trace in earlier.items() if key in key_of}

    return lookup


def from_members(
    planning: Planning,
    home: str,
    missing: Mapping[str, Task],
    members_of: MembersOf,
    lookup: Lookup[Trace] = lookups.traces,
) -> Deciding[Elsewhere]:
    """Unions in place of tasks of spans. `members_of`: the tasks of slices of these spans. `home`:
    the dataset whose results they are. `lookup`: finds the traces of slices."""
    hits: Hits = {}
    spans = {key: task for key, task in missing.items() if is_span(key)}
    rest = iter((yield from unrequested(spans)))
    while some := list(islice(rest, SPANS_A_TIME)):
        members = yield from members_of(some)
        span_tasks = {span: (missing[span].key, tasks) for span, tasks in members.items()}
        for span, union in (yield from united(home, span_tasks, lookup)).items():
            assert union.trace is not None
            planning.add_union(home, union)
            hits[span] = union.trace.task, union.trace
    return hits, {key: task for key, task in missing.items() if key not in hits}


def complete(spans: Mapping[S, SliceTasks], lookup: Lookup[R]) -> Deciding[dict[S, list[R]]]:
    """The results of all slices, of the spans of which memory has all.

    Those of the first and the last slice are looked up first. After an edit of the code neither is
    there: so a span without results costs two keys, not a hundred."""
    ends = {span: tasks.ends for span, tasks in spans.items()}
    of_ends = yield from lookup(sorted({*chain.from_iterable(ends.values())}))
    likely = {span: spans[span].keys for span, keys in ends.items() if keys <= of_ends.keys()}
    if not likely:
        return {}
    results = yield from lookup(sorted({*chain.from_iterable(likely.values())}))
    return {
        span: [results[key] for key in keys]
        for span, keys in likely.items()
        if all(key in results for key in keys)
    }


def united(
    home: str,
    spans: Mapping[S, tuple[bytes, SliceTasks]],
    lookup: Lookup[Trace] = lookups.traces,
) -> Deciding[dict[S, SliceUnion]]:
    """The union of each span that memory has the results of all slices of. `spans`: the key of its
    task, and the tasks of its slices."""
    slice_tasks = {span: tasks for span, (_, tasks) in spans.items()}
    traces_by_span = yield from complete(slice_tasks, lookup)
    traces = chain.from_iterable(traces_by_span.values())
    outputs = {trace.outputs.get("", b"") for trace in traces}
    fragments = yield from lookups.fragments(sorted(outputs))
    unions: dict[S, SliceUnion] = {}
    for span, traces_of_slices in traces_by_span.items():
        task, slices = spans[span]
        results = list(zip(slices.names, traces_of_slices, strict=True))
        union = _union(task, results, fragments, home)
        if union is not None:
            unions[span] = union
    return unions


def _union(
    task: bytes,
    results: Sequence[tuple[str, Trace]],
    fragments: Mapping[bytes, Fragment],
    home: str,
) -> SliceUnion | None:
    """None where results differ in columns, or two are one fragment: its files cannot be named
    twice."""
    if any(trace.outputs.keys() != ONLY for _, trace in results):
        return None
    parts = [fragments[trace.outputs[""]] for _, trace in results]
    with_rows = [part.id for part in parts if part.content.rows]
    if len(set(with_rows)) < len(with_rows):
        return None
    schema, last = parts[0].schema, parts[-1]
    if any(part.schema != schema for part in parts):
        return None
    members = tuple(
        MemberContent(key, part.content) for (key, _), part in zip(results, parts, strict=True)
    )
    content = _sum(members)
    files = tuple(chain.from_iterable(part.files for part in parts if part.content.rows))
    id = fragment_id(schema, content)
    if any("times" in file for file in files):
        id = union_id(schema, content, with_rows)
    fragment = Fragment(id, schema, content, files, last.home, last.attempt)
    trace = Trace(task, {"": fragment.id}, by="adopted", home=home, contents={"": content})
    return SliceUnion(fragment, members, trace)


def summed(answers: Iterable[Iterable[tuple[str, Content]]]) -> Memo:
    """The contents by key of rows that several index tasks have answered about."""
    sums: dict[str, Content] = {}
    for key, content in chain.from_iterable(answers):
        sums[key] = sums.get(key, EMPTY).plus(content)
    return {"keys": {key: list(content) for key, content in sorted(sums.items())}}

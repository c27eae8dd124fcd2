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
from functools import reduce
from itertools import chain
from typing import Final, TypeAlias

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.model.memos import Memo
from controlplane.core.model.roll_ups import (
    MemberContent,
    SliceUnion,
    contents_in,
    is_span,
    sources_in,
)
from controlplane.core.model.tasks import Fragment, Task, Trace
from controlplane.core.plan import lookups
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Planning
from controlplane.core.plan.windows import Hits
from dataplane.contract.identity import EMPTY, Content, fragment_id

# The results of tasks that memory lacks, and the tasks that are left
Elsewhere: TypeAlias = tuple[Hits, dict[str, Task]]
MemberKeys: TypeAlias = Sequence[tuple[str, bytes]]  # the keys of slices, and of their tasks
TaskOf: TypeAlias = Callable[[MemberContent], bytes]
ONLY: Final = {""}  # the outputs of a task with one result


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
) -> Deciding[dict[str, list[tuple[str, bytes]]]]:
    """The slices of spans of a topic with their source ids. `spans`: source ids by key."""
    keys = {span: ids.members_key(source) for span, source in spans.items()}
    memos = yield from lookups.memos(list(keys.values()))
    return {span: sources_in(memos[key]) for span, key in keys.items() if key in memos}


# --- results --------------------------------------------------------------------------------------


def from_members(
    planning: Planning,
    home: str,
    missing: Mapping[str, Task],
    members: Mapping[str, MemberKeys],
) -> Deciding[Elsewhere]:
    """Unions in place of tasks. `members`: of spans among the missing partitions, with the keys of
    the tasks of slices. `home`: the dataset whose results they are."""
    unions = yield from united(
        home, {span: (missing[span].key, of) for span, of in members.items()}
    )
    hits: Hits = {}
    for span, union in unions.items():
        assert union.trace is not None
        planning.add_union(home, union)
        hits[span] = union.trace.task, union.trace
    return hits, {key: task for key, task in missing.items() if key not in hits}


def united(
    home: str, spans: Mapping[str, tuple[bytes, MemberKeys]]
) -> Deciding[dict[str, SliceUnion]]:
    """The union of each span that memory has the results of all slices of. `spans`: the key of its
    task, and its slices."""
    member_tasks = {task for _, members in spans.values() for _, task in members}
    if not member_tasks:
        return {}
    traces = yield from lookups.traces(sorted(member_tasks))
    complete = {span: of for span, of in spans.items() if all(task in traces for _, task in of[1])}
    outputs = {trace.outputs.get("", b"") for trace in traces.values()}
    fragments = yield from lookups.fragments(sorted(outputs))
    unions: dict[str, SliceUnion] = {}
    for span, (task, members) in complete.items():
        results = [(key, traces[member]) for key, member in members]
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
    fragment = Fragment(
        fragment_id(schema, content), schema, content, files, last.home, last.attempt
    )
    trace = Trace(task, {"": fragment.id}, by="adopted", home=home, contents={"": content})
    return SliceUnion(fragment, members, trace)


def summed(answers: Iterable[Iterable[tuple[str, Content]]]) -> Memo:
    """The contents by key of rows that several index tasks have answered about."""
    sums: dict[str, Content] = {}
    for key, content in chain.from_iterable(answers):
        sums[key] = sums.get(key, EMPTY).plus(content)
    return {"keys": {key: list(content) for key, content in sorted(sums.items())}}

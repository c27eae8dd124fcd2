"""Facts of one dataset that its component and its newest generation have. Changes nothing."""

from __future__ import annotations

from itertools import islice
from typing import Final

from typing_extensions import TypedDict

from controlplane.core import tree
from controlplane.core.errors import CorruptNode, NotFound
from controlplane.core.rights import may
from controlplane.operations import known_fragments
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views
from controlplane.operations.inspect.data_age import LastChanges
from controlplane.operations.planning.snapshot import StoreSnapshot

MEASURED: Final = 1_000  # partitions whose files are summed up


class DatasetFacts(TypedDict):
    """`updated`: when rows changed last; None where nothing is committed, and of an export.
    `size_bytes`: of all files; None where there are too many to sum up. `file`, `line`: where the
    component is declared; empty where its dataflow is not seen whole."""

    owner: str
    tags: list[str]
    updated: str | None
    size_bytes: int | None
    file: str
    line: int


def of_dataset(ctx: Context, branch: str, name: str) -> DatasetFacts:
    """Raises NotFound."""
    with ctx.read_plan(branch) as (_, facts):
        node, state = facts.desired.nodes.get(name), facts.state(name)
        if node is None:
            raise NotFound(f"there is no dataset {name}")
        component = node.component
        is_whole = may(ctx.principal, "view", dataflow=name.partition(".")[0])
        updated = None
        if state is not None:
            updated = LastChanges().times(facts.tx, branch, {name: state})[name]
        return {
            "owner": component.owner,
            "tags": list(component.tags),
            "updated": json_views.when(updated),
            "size_bytes": _size(facts, name),
            "file": component.place.file if is_whole else "",
            "line": component.place.line if is_whole else 0,
        }


def _size(facts: StoreSnapshot, name: str) -> int | None:
    state = facts.state(name)
    if state is None or state.partitions > MEASURED:
        return None
    try:
        entries = list(islice(tree.scan(facts.nodes, state.root), MEASURED + 1))
        fragments = known_fragments.of(facts.tx, entries)
    except (CorruptNode, NotFound):  # `fsck` reports what is damaged
        return None
    files = {f["path"]: f["size"] for e in entries for f in fragments[e.fragment].files}
    return sum(files.values())

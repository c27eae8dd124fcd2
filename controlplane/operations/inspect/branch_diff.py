"""How two branches differ: texts of components, and datasets by partitions. Changes nothing.

Partitions are compared by content, so a partition with the same rows is the same, wherever it is,
and no file is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff
from typing import Literal

from controlplane.core.merging.spans import split
from controlplane.core.model.answers import BranchDifference, ComponentDifference, DatasetDifference
from controlplane.core.model.branches import MAIN
from controlplane.core.model.revisions import Revision
from controlplane.core.model.states import State
from controlplane.core.rights import may
from controlplane.operations.context import Context
from controlplane.operations.inspect import data_diff
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Tx

SHOWN_PARTITIONS = 100
SHOWN_LINES = 200  # of a component's text


def difference(
    ctx: Context, branch_before: str, other: str, *, after: str | None = None, limit: int = 100
) -> BranchDifference:
    """From `one` to `other`: up to `limit` names of components and datasets after a name, in
    order."""
    with ctx.read() as tx:
        # On one side alone, also in main
        has_moved = branch_before != other and (
            is_pinned(tx, branch_before) or is_pinned(tx, other)
        )
        edited = {
            flow
            for branch in (branch_before, other)
            if branch != MAIN
            for flow in tx.branches.own_dataflows(branch)
        }
        if has_moved:
            edited |= _moved_texts(tx, branch_before, other)
        before, now = (
            tx.blueprints.revisions(branch_before, edited),
            tx.blueprints.revisions(other, edited),
        )
        texts = [
            component
            for flow in sorted(edited)
            for component in _components(flow, before.get(flow), now.get(flow))
        ]
        components = {_name(component): component for component in texts}
        own = _own(tx, branch_before) | _own(tx, other)
        if has_moved:
            own |= _moved_data(tx, branch_before, other)
        declared = _declared(ctx, tx, branch_before) | _declared(ctx, tx, other)
        visible = {name for name in components.keys() | declared if _sees(ctx, name)}
        names = sorted(
            name for name in visible & (components.keys() | own) if after is None or name > after
        )
        page = names[:limit]
        shown = [name for name in page if name in own and name in declared]
        states, others = tx.states.newest(branch_before, shown), tx.states.newest(other, shown)
        return {
            "one": branch_before,
            "other": other,
            "components": [components[name] for name in page if name in components],
            "datasets": [
                _dataset(
                    tx,
                    name,
                    data_diff.comparable(
                        tx, branch_before, other, states.get(name), others.get(name)
                    ),
                )
                for name in shown
            ],
            "shared": len(declared & visible - own),
            "next": page[-1] if len(names) > limit else None,
        }


def _sees(ctx: Context, name: str) -> bool:
    """`name`: of a dataset, or of a dataflow."""
    return ctx.sees(name) if "." in name else may(ctx.principal, "view", dataflow=name)


def _name(component: ComponentDifference) -> str:
    return (
        f"{component['dataflow']}.{component['component']}"
        if component["component"]
        else component["dataflow"]
    )


def _own(tx: Tx, branch: str) -> frozenset[str]:
    return frozenset() if branch == MAIN else tx.branches.own_datasets(branch)


def _moved_texts(tx: Tx, branch: str, other: str) -> set[str]:
    """Dataflows that are other in main than in a branch that was pinned before, though no branch
    edited them."""
    before, now = tx.blueprints.revisions(branch), tx.blueprints.revisions(other)
    return {
        flow
        for flow in before.keys() | now.keys()
        if _text(before.get(flow)) != _text(now.get(flow))
    }


def _text(revision: Revision | None) -> str | None:
    return None if revision is None else revision.text


def _moved_data(tx: Tx, branch: str, other: str) -> frozenset[str]:
    before, now = tx.states.newest(branch), tx.states.newest(other)
    return frozenset(
        name
        for name in before.keys() | now.keys()
        if _root(before.get(name)) != _root(now.get(name))
    )


def _root(state: State | None) -> bytes | None:
    return None if state is None else state.root


def _declared(ctx: Context, tx: Tx, branch: str) -> frozenset[str]:
    nodes = desired(tx, branch, namespace=ctx.namespace).nodes
    return frozenset(name for name, node in nodes.items() if node.has_rows)


def _components(
    flow: str, revision: Revision | None, other: Revision | None
) -> Iterator[ComponentDifference]:
    """Where a text cannot be taken apart, it differs as a whole."""
    before, after = _parts(revision), _parts(other)
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old is not None and new is not None and old.rstrip() == new.rstrip():
            continue
        lines = unified_diff((old or "").splitlines(), (new or "").splitlines(), lineterm="", n=2)
        diff = [line for line in lines if not line.startswith(("---", "+++"))][:SHOWN_LINES]
        state: Literal["added", "removed", "changed"] = "changed"
        if old is None:
            state = "added"
        if new is None:
            state = "removed"
        yield {"dataflow": flow, "component": name, "state": state, "diff": diff}


def _parts(revision: Revision | None) -> Mapping[str, str]:
    if revision is None:
        return {}
    parts = split(revision.text)
    if parts is None:
        return {"": revision.text}
    components = {name: part.text for name, part in parts.components.items()}
    return {"": parts.head.text + parts.tail.text, **components}


def _dataset(tx: Tx, name: str, sides: tuple[State | None, State | None]) -> DatasetDifference:
    state_before, other = sides
    changes = data_diff.changes_of(tx, state_before, other)
    kinds = [change.kind for change in changes]
    rows = (other.rows if other else 0) - (state_before.rows if state_before else 0)
    state: Literal["added", "removed", "changed", "equal"] = "changed" if changes else "equal"
    if state_before is None:
        state = "added"
    if other is None:
        state = "removed"
    return {
        "dataset": name,
        "state": state,
        "added": kinds.count("added"),
        "removed": kinds.count("removed"),
        "changed": kinds.count("changed"),
        "moved": kinds.count("moved"),
        "rows": rows,
        "same_inputs": state_before is not None
        and other is not None
        and state_before.cut == other.cut,
        "partitions": [change.key for change in changes[:SHOWN_PARTITIONS]],
    }

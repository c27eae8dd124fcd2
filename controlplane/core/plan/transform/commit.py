"""Committing a transform: all partitions are known, and become its next state.

What folds and other transforms share.
"""

from __future__ import annotations

from controlplane.core.plan import lookups, windows
from controlplane.core.plan.lookups import Deciding
from controlplane.core.plan.plan_values import Commit, Decision, Item, user_error
from controlplane.core.plan.transform.case import Case, item_of, state_after
from controlplane.core.plan.transform.extent import Extent
from controlplane.core.plan.work_keys import listed
from controlplane.core.schema.ddl_schemas import EMPTY_SCHEMA
from dataplane.contract.schemas import Schema


def commit(
    case: Case, extent: Extent, window: windows.Window, schema: Schema | None, build: bytes
) -> Deciding[Decision]:
    """The base of the extent with all that the window found. Without a `schema`, it is that of the
    results."""
    if schema is None:
        schema = yield from _common_schema(case, window)
    if schema is None:
        message = "its partitions came out with different columns or types"
        return Decision(case.node.dataset, "failed", error=user_error("schema-differs", message))
    entered = yield from windows.entering(case.planning, case.root, window)
    root = yield from windows.edited(case.planning, extent.base, window, extent.removed)
    removed = extent.removed
    if not removed:
        removed = yield from _not_given_again(case, root)
    items: list[Item] = []
    if window.entries:
        items.append(item_of(case, "adopt", 0, listed(sorted(window.entries))))
    if removed:
        items.append(item_of(case, "remove", 0, listed(removed)))
    step = Commit(state_after(case, root, schema), entered, 0, None, build)
    return Decision(case.node.dataset, "stale", step, tuple(items))


def _not_given_again(case: Case, root: bytes) -> Deciding[tuple[str, ...]]:
    """Partitions to remove, as the one task that gives many partitions has not given them again."""
    if case.parted or not case.node.key:
        return ()
    [missing] = yield from lookups.missing_keys([(root, case.root)])
    return tuple(missing)


def _common_schema(case: Case, window: windows.Window) -> Deciding[Schema | None]:
    """The schema of Python results that could not be analysed: that of all fragments, if they are
    equal."""
    ids = [entry.fragment for _, entry in window.entries.values()]
    stored = yield from lookups.fragments(ids)
    schemas = [stored[fragment].schema for fragment in stored.keys() & set(ids)]
    # Nothing new came out.
    if not schemas:
        return case.state.schema if case.state is not None else EMPTY_SCHEMA
    first = schemas[0]
    if any(schema != first for schema in schemas):
        return None
    return first

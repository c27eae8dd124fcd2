"""From the nodes before an edit and those after it to all that changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controlplane.core.compile.nodes import Desired, Node
from controlplane.core.review import breaks
from controlplane.core.review.column_diff import NO_CHANGES, compare, impact_of
from controlplane.core.review.component_texts import NO_TEXTS, component_texts, text_diff
from controlplane.core.review.logic import logic_diff
from controlplane.core.review.node_schemas import Schemas
from controlplane.core.review.review_values import (
    Break,
    ChangeKind,
    ColumnChanges,
    ComponentReview,
    Impact,
    KnownFacts,
    KnownSchema,
    Review,
)

NO_SCHEMA = KnownSchema(None, "unknown")


def review(before: Desired, after: Desired, facts: KnownFacts, unanswered: str = "") -> Review:
    """The differences, and the breaks that they cause, in all dataflows that these nodes are of.
    `unanswered`: why requested answers of Spark are missing."""
    earlier = Schemas(before, facts)
    later = Schemas(after, facts, earlier, unanswered)
    changed = _changed_columns(before, after, earlier, later)
    broken = _breaks(before, after, later, changed)
    # Of edited components and their inputs: the rest needs no Spark
    requests = tuple(later.requests.values())
    reviewed = [
        _change(dataset, before, after, (earlier, later), changed, broken)
        for dataset in _names(before, after)
    ]
    return Review(tuple(change for change in reviewed if change is not None), requests)


def _names(before: Desired, after: Desired) -> Iterator[str]:
    """Names of components, inputs first; deleted ones come last."""
    yield from (dataset for dataset in after.order if not _is_second(after.nodes[dataset]))
    yield from (
        dataset
        for dataset in before.order
        if dataset not in after.nodes and not _is_second(before.nodes[dataset])
    )


def _is_second(node: Node) -> bool:
    """A second output of tasks is reported with the first."""
    return bool(node.output)


def _is_touched(before: Node | None, after: Node) -> bool:
    """Its columns may be others: its code, or something upstream of it, was edited."""
    if before is None:
        return True
    if before.is_copy or after.is_copy:
        return before != after
    return before.lineage != after.lineage


def _changed_columns(
    before: Desired, after: Desired, earlier: Schemas, later: Schemas
) -> dict[str, ColumnChanges]:
    """How the columns of datasets differ, only for those that do."""
    touched = [
        dataset
        for dataset in after.order
        if not after.nodes[dataset].is_copy
        and _is_touched(before.nodes.get(dataset), after.nodes[dataset])
    ]
    earlier.load(dataset for dataset in touched if dataset in before.nodes)
    later.load(touched)
    changes_of: dict[str, ColumnChanges] = {}
    for dataset in touched:
        node = after.nodes[dataset]
        new = later.of(dataset).schema
        had = earlier.of(dataset).schema if dataset in before.nodes else None
        if had is None or new is None:
            continue
        is_exact = node.is_transform and node.is_case_sensitive
        changes = compare(had, new, case_sensitive=is_exact)
        if not changes.is_empty:
            changes_of[dataset] = changes
    return changes_of


def _breaks(
    before: Desired, after: Desired, later: Schemas, changed: dict[str, ColumnChanges]
) -> dict[str, list[Break]]:
    """By the dataset whose change breaks something."""
    by_cause: dict[str, list[Break]] = {}
    in_danger = [
        dataset
        for dataset in after.order
        if _may_break(after.nodes[dataset], before.nodes.get(dataset), changed)
    ]
    # What breaks sources and write components follows from `changed` alone
    later.load(dataset for dataset in in_danger if after.nodes[dataset].is_transform)
    for dataset in in_danger:
        node, old = after.nodes[dataset], before.nodes.get(dataset)
        is_edited = old is None or bool(logic_diff(old, node))
        for effect in breaks.of_node(node, later, changed, is_edited=is_edited):
            by_cause.setdefault(effect.by, []).append(effect)
    return by_cause


def _may_break(node: Node, old: Node | None, changed: Mapping[str, ColumnChanges]) -> bool:
    if node.is_copy:
        return node.source in changed
    has_limits = bool(node.component.max_recompute)
    return (has_limits or _is_touched(old, node)) and not node.output


def _change(
    dataset: str,
    before: Desired,
    after: Desired,
    schemas: tuple[Schemas, Schemas],
    changed: Mapping[str, ColumnChanges],
    broken: Mapping[str, list[Break]],
) -> ComponentReview | None:
    """None where the component is as it was."""
    old, new = before.nodes.get(dataset), after.nodes.get(dataset)
    if _is_same_text(dataset, before, after) and dataset not in changed and dataset not in broken:
        return None
    difference = text_diff(_texts(before, dataset), _texts(after, dataset))
    logic = logic_diff(old, new) if old is not None and new is not None else ()
    kind = _kind(old, new, difference, logic, is_other=dataset in changed or dataset in broken)
    if kind is None:
        return None
    columns = changed.get(dataset, NO_CHANGES)
    is_dataset = any(node is not None and node.has_rows for node in (old, new))
    has = schemas[1].of(dataset) if new is not None and is_dataset else NO_SCHEMA
    had = schemas[0].of(dataset) if old is not None and is_dataset else NO_SCHEMA
    return ComponentReview(
        dataset=dataset,
        kind=kind,
        impact=_impact(kind, columns, had, has) if is_dataset else "neutral",
        text_diff=difference if kind != "columns" else "",
        logic=logic,
        columns=columns,
        origin=has.origin,
        why_unknown=has.why,
        breaks=tuple(sorted(broken.get(dataset, ()))),
    )


def _is_same_text(dataset: str, before: Desired, after: Desired) -> bool:
    """Its dataflow was not sent, or was sent as it is stored."""
    flow = dataset.partition(".")[0]
    old, new = before.texts.get(flow), after.texts.get(flow)
    if old is None or new is None:
        return old is new
    return (old.revision.text, old.revision.files) == (new.revision.text, new.revision.files)


def _texts(desired: Desired, dataset: str) -> dict[str, tuple[int, str]]:
    return dict(component_texts(desired, dataset) if dataset in desired.nodes else NO_TEXTS)


def _kind(
    old: Node | None, new: Node | None, difference: str, logic: tuple[str, ...], *, is_other: bool
) -> ChangeKind | None:
    if old is None:
        return "added"
    if new is None:
        return "removed"
    if logic:
        return "logic"
    if difference:
        return "text"
    return "columns" if is_other else None


def _impact(kind: ChangeKind, columns: ColumnChanges, had: KnownSchema, has: KnownSchema) -> Impact:
    match kind:
        case "added" | "text":
            return "neutral"
        case "removed":
            return "breaking"
        case "logic" | "columns":
            return impact_of(columns, had, has)

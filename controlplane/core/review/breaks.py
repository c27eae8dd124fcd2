"""Breakage by an edit: the edit itself, readers, targets, checks; each with its place.

Where Spark has analysed a reader under the new columns, its answer counts. Else each mention of a
column that is gone counts, as sqlglot resolves it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controlplane.core.blueprint import Position, SqlTransform
from controlplane.core.compile import key_types
from controlplane.core.compile.compiled_checks import CompiledCheck
from controlplane.core.compile.error_places import place_of_error
from controlplane.core.compile.nodes import Node, Sink, Slot, Source, Transform
from controlplane.core.plan.transform.key_index import output_error
from controlplane.core.review.column_diff import as_ddl, fold
from controlplane.core.review.node_schemas import Schemas, first_line
from controlplane.core.review.review_values import Break, BreakKind, ColumnChanges, Retyped
from controlplane.core.sql import ColumnUse
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema

CODES: Mapping[BreakKind, str] = {
    "itself": "edit-breaks-itself",
    "reader": "edit-breaks-reader",
    "target": "edit-breaks-target",
    "check": "edit-breaks-check",
}
FAMILIES: Mapping[str, str] = {
    **dict.fromkeys(
        ("TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
        "number",
    ),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"), "time"),
}


def of_node(
    node: Node, schemas: Schemas, changes: Mapping[str, ColumnChanges], *, is_edited: bool
) -> Iterator[Break]:
    """The breaks of one node. `changes`: how the columns of datasets differ, only for those that
    do."""
    match node:
        case Transform():
            yield from _of_transform(node, schemas, changes, is_edited=is_edited)
            yield from _of_checks(node, changes)
        case Source():
            yield from _of_checks(node, changes)
        case Sink():
            yield from _of_sink(node, changes)


# --- transforms -----------------------------------------------------------------------------------


def _of_transform(
    node: Transform, schemas: Schemas, changes: Mapping[str, ColumnChanges], *, is_edited: bool
) -> Iterator[Break]:
    columns = schemas.of(node.dataset)
    error = schemas.errors.get(node.dataset)
    mentions = [] if columns.origin == "spark" else list(_mentions(node, schemas, changes))
    yield from mentions
    if error is not None and not mentions:
        yield _refused(node, error, changes, is_edited=is_edited)
    if columns.is_exact and columns.schema is not None:
        yield from _of_key(node, columns.schema)
    yield from _of_late_modes(node, schemas)


def _of_late_modes(node: Transform, schemas: Schemas) -> Iterator[Break]:
    """Limits that it exceeds by modes that follow from the types of its inputs."""
    if node.by_key is None or not node.component.max_recompute:
        return
    known_reads = {
        name: read.schema
        for name, read in schemas.reads(node).items()
        if read.is_exact and read.schema is not None
    }
    if len(known_reads) < len(node.slots):
        return
    from controlplane.core.compile import read_limits

    slots = key_types.decided(node, known_reads).slots
    for problem in read_limits.problems(node.component, node.body, slots):
        yield Break(node.dataset, node.dataset, "itself", problem)


def _refused(
    node: Transform, error: TaskError, changes: Mapping[str, ColumnChanges], *, is_edited: bool
) -> Break:
    """What Spark's analyzer says."""
    changed = [slot.dataset for slot in node.slots if slot.dataset in changes]
    what: BreakKind = "reader" if changed and not is_edited else "itself"
    by = changed[0] if what == "reader" else node.dataset
    condition = f" [{error['condition']}]" if error["condition"] else ""
    message = f"{node.dataset}: Spark refuses it{condition}: {first_line(error['message'])}"
    return _break(
        by, node, what, _place_of(node, error), message, "" if is_edited else _hint(by, node)
    )


def _place_of(node: Transform, error: TaskError) -> Position:
    file, line, column = place_of_error(node, error)
    return Position(file or node.component.place.file, line or 1, column or 1)


def _of_key(node: Transform, schema: Schema) -> Iterator[Break]:
    """Its own keys and order, which are made of columns of its output."""
    fault = output_error(node, schema)
    if fault is not None:
        yield _break(
            node.dataset,
            node,
            "itself",
            node.component.place,
            f"{node.dataset}: {fault['message']}",
            "",
        )


def _mentions(
    node: Transform, schemas: Schemas, changes: Mapping[str, ColumnChanges]
) -> Iterator[Break]:
    """Mentions of columns that its inputs no longer have, or have with a type of another kind."""
    touched = [slot for slot in node.slots if slot.dataset in changes]
    if node.query is None or not touched or schemas.earlier is None:
        return
    inputs = _columns_before(node, schemas.earlier)
    for use in node.query.column_uses(inputs):
        slot = next((s for s in touched if s.name.lower() == use.input.lower()), None)
        if slot is not None:
            yield from _of_use(node, slot, use, changes[slot.dataset])


def _columns_before(node: Transform, earlier: Schemas) -> dict[str, dict[str, str]]:
    by_input: dict[str, dict[str, str]] = {}
    for slot in node.slots:
        schema = earlier.of(slot.dataset).schema
        if schema is not None:
            by_input[slot.name] = as_ddl(schema)
    return by_input


def _of_use(node: Transform, slot: Slot, use: ColumnUse, changes: ColumnChanges) -> Iterator[Break]:
    assert isinstance(node.body, SqlTransform)
    place = node.body.text.at(use.line, use.column)
    is_exact = node.is_case_sensitive
    removed = _named(changes.removed, use.name, case_sensitive=is_exact)
    if removed is not None:
        message = (
            f"{node.dataset} reads {_in_call(use, removed)} of {slot.dataset}, which has it no more"
        )
        yield _break(slot.dataset, node, "reader", place, message, _hint(slot.dataset, node))
    for retyped in changes.narrowed:
        is_meant = fold(retyped.name, case_sensitive=is_exact) == fold(
            use.name, case_sensitive=is_exact
        )
        if is_meant and _is_other_kind(retyped):
            message = (
                f"{node.dataset} reads {_in_call(use, retyped.name)} of {slot.dataset}, which becomes "
                f"{retyped.after}"
            )
            yield _break(
                slot.dataset,
                node,
                "reader",
                place,
                f"{message} (was {retyped.before})",
                _hint(slot.dataset, node),
            )


def _in_call(use: ColumnUse, name: str) -> str:
    if not use.call or use.call == "USING":
        return name
    return f"{use.call}({name})"


def _named(names: tuple[str, ...], name: str, *, case_sensitive: bool) -> str | None:
    folded = fold(name, case_sensitive=case_sensitive)
    return next((n for n in names if fold(n, case_sensitive=case_sensitive) == folded), None)


def _is_other_kind(retyped: Retyped) -> bool:
    """A number that becomes a text, for example. Between numbers Spark converts."""
    return _family(retyped.before) != _family(retyped.after)


def _family(ddl: str) -> str:
    name = ddl.partition("(")[0].partition("<")[0]
    return FAMILIES.get(name, name)


# --- checks and targets -----------------------------------------------------------------------------


def _of_checks(node: Source | Transform, changes: Mapping[str, ColumnChanges]) -> Iterator[Break]:
    """Checks of columns that the dataset itself no longer has."""
    removed = changes[node.dataset].removed if node.dataset in changes else ()
    if node.output:
        return
    for check in node.checks:
        for name in _looked_at(check, removed):
            message = f"the check {check.name!r} of {node.dataset} looks at {name}, which is no column any more"
            place = _place_in(check, name)
            yield _break(
                node.dataset, node, "check", place, message, "keep the column, or change the check"
            )


def _looked_at(check: CompiledCheck, names: tuple[str, ...]) -> tuple[str, ...]:
    if check.predicate is not None:
        return check.predicate.named_columns(names) or ()
    unique = {name.casefold() for name in check.of.unique}
    return tuple(name for name in names if name.casefold() in unique)


def _place_in(check: CompiledCheck, name: str) -> Position:
    if check.predicate is None:
        return check.of.place
    folded = name.casefold()
    places = (
        (line, at)
        for word, line, at, _ in check.predicate.mentioned_columns()
        if word.casefold() == folded
    )
    return check.of.text.at(*next(places, (1, 1)))


def _of_sink(node: Sink, changes: Mapping[str, ColumnChanges]) -> Iterator[Break]:
    """A table that people made, or that has to be kept, does not take other columns."""
    column_changes = changes.get(node.source)
    if column_changes is None:
        return
    lost = _lost_key(node, column_changes)
    if lost is not None:
        message = (
            f"{node.dataset} tells rows apart by {lost} of {node.source}, which has it no more"
        )
        yield _break(
            node.source, node, "target", node.component.place, message, _hint(node.source, node)
        )
        return
    policy = dict(node.write.settings).get("schema_change")
    refused = _not_taken(column_changes, str(policy)) if policy is not None else ""
    if refused:
        message = f"{node.dataset} does not take what {node.source} becomes: {refused}; schema_change is {policy}"
        hint = "`schema_change: recreate` makes the table anew"
        yield _break(node.source, node, "target", node.component.place, message, hint)


def _lost_key(node: Sink, changes: ColumnChanges) -> str | None:
    own = dict(node.write.settings).get("key") or ()
    names = (own,) if isinstance(own, str) else own if isinstance(own, tuple) else ()
    for name in (*node.keyed, *names):
        lost = _named(changes.removed, name, case_sensitive=False)
        if lost is not None:
            return lost
    return None


def _not_taken(changes: ColumnChanges, policy: str) -> str:
    """In words; empty where the table can follow."""
    if policy not in ("fail", "alter"):
        return ""
    parts = [f"without {name}" for name in changes.removed]
    parts += [f"{retyped.name} as {retyped.after}" for retyped in changes.retyped]
    if policy == "fail":
        parts += [f"with {name}" for name in changes.added]
    return ", ".join(parts)


# --- all of them ----------------------------------------------------------------------------------


def _hint(by: str, node: Node) -> str:
    return f"keep the column in {by}, or change {node.dataset} in the same edit"


def _break(by: str, node: Node, what: BreakKind, place: Position, message: str, hint: str) -> Break:
    problem = place.problem(CODES[what], message, hint)
    return Break(by, node.dataset, what, problem)

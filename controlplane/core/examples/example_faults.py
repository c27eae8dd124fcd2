"""Faults of tests that can be found without running them.

A stored blueprint runs also if its tests fail, so these are problems of `validate` and of `test`
only. Does not belong here: the form of tests, which every blueprint has to keep to.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from controlplane.core import sql
from controlplane.core.blueprint import SqlTransform
from controlplane.core.blueprint.example_model import (
    ExampleRow,
    ExpectedCheck,
    ExpectedRows,
    Given,
    TransformExample,
)
from controlplane.core.blueprint.problems import did_you_mean, shown
from controlplane.core.blueprint.text_places import Position
from controlplane.core.compile.column_problems import ColumnWords, DatasetColumns
from controlplane.core.compile.nodes import Desired, Node, Transform
from controlplane.core.errors import Problem
from controlplane.core.examples.example_inputs import (
    MixedTypes,
    declared,
    inferred,
    input_named,
    input_names,
)
from controlplane.core.schema.ddl_schemas import InvalidSchema, parse_ddl
from dataplane.contract.cells import BadCell, typed
from dataplane.contract.schemas import Schema, Type
from dataplane.contract.zones import UnknownZone, zone


def problems(desired: Desired, datasets: Container[str] | None = None) -> tuple[Problem, ...]:
    """Problems of the tests of all components, or of those named, in order of place."""
    chosen = (node for name, node in desired.nodes.items() if datasets is None or name in datasets)
    nodes = (node for node in chosen if node.is_transform and not node.output)
    tables = DatasetColumns(desired.nodes)
    distinct = {
        p for node in nodes for test in node.component.tests for p in _of_test(node, test, tables)
    }
    return tuple(sorted(distinct))


def _of_test(node: Transform, test: TransformExample, tables: DatasetColumns) -> Iterator[Problem]:
    for input_rows in test.given:
        yield from _of_given(node, input_rows, tables.nodes)
    yield from _of_marks(node, test)
    yield from _of_params(node, test)
    names = tables.of(node.dataset)
    look = None if names is None else ColumnWords(names, node.is_case_sensitive)
    match test.expect:
        case ExpectedCheck() as check:
            yield from _of_check(check, look)
        case ExpectedRows(rows=rows) if look is not None:
            yield from _of_expected(rows, look)


def _of_given(node: Transform, input_rows: Given, nodes: Mapping[str, Node]) -> Iterator[Problem]:
    name = input_named(node, input_rows.name)
    if name is None:
        names = input_names(node)
        hint = (
            did_you_mean(input_rows.name, names) or f"its inputs are {', '.join(names) or 'none'}"
        )
        yield input_rows.place.problem(
            "unknown-key", f"{node.component.name} has no input {shown(input_rows.name)}", hint
        )
        return
    try:
        schema = parse_ddl(input_rows.schema) if input_rows.schema else _declared(node, name, nodes)
        if schema is None:
            inferred(input_rows.rows)
            return
    except InvalidSchema as e:
        yield input_rows.place.problem(e.code, str(e), "for example: year INT, name STRING")
    except MixedTypes as e:
        yield input_rows.place.problem(
            "wrong-type", str(e), 'for example: {schema: "id INT", rows: [...]}'
        )
    else:
        for row in input_rows.rows:
            yield from row_problems(row, schema, input_rows.name, str(node.spark["timezone"]))


def _of_marks(node: Transform, test: TransformExample) -> Iterator[Problem]:
    """Truncates and snapshots of `cdc` come from another dataset, of which a test sees the rows
    that it gives."""
    if not isinstance(node.body, SqlTransform) or node.body.is_written:
        return
    names = {input_named(node, rows.name) for rows in test.given}
    for slot in node.slots:
        if slot.mode == "all" and slot.name not in names:
            message = f"the test gives no {slot.name}"
            hint = f"for example {slot.name}: [{{_sequence: 5}}], or {slot.name}: []"
            yield test.place.problem("missing-key", message, hint)


def _declared(node: Transform, name: str, nodes: Mapping[str, Node]) -> Schema | None:
    if node.fold is not None and name == node.fold.name:
        return node.fold.schema
    dataset = next(slot.dataset for slot in node.slots if slot.name == name)
    return declared(nodes[dataset])


def row_problems(row: ExampleRow, schema: Schema, name: str, timezone: str) -> Iterator[Problem]:
    """Columns that an input does not have, and values that are none of their types."""
    types = {field["name"]: field["type"] for field in schema["fields"]}
    for cell in row.cells:
        kind = types.get(cell.column)
        if kind is None:
            hint = did_you_mean(cell.column, types) or f"its columns are {', '.join(types)}"
            yield cell.place.problem(
                "unknown-key", f"{name} has no column {shown(cell.column)}", hint
            )
        elif fault := _fault(kind, cell.value, timezone):
            yield cell.place.problem("wrong-type", f"{cell.column}: {fault}", "")


def _fault(kind: Type, value: object, timezone: str) -> str:
    try:
        typed(kind, value, zone(timezone))
    except (BadCell, UnknownZone) as e:
        return str(e)
    return ""


def _of_params(node: Transform, test: TransformExample) -> Iterator[Problem]:
    names = [name for name, _ in node.body.params]
    for name, _ in test.params:
        if name not in names:
            hint = did_you_mean(name, names) or f"its parameters are {', '.join(names) or 'none'}"
            message = f"{node.component.name} has no parameter {shown(name)}"
            yield test.params_place.problem("unknown-key", message, hint)


def _of_check(expect: ExpectedCheck, look: ColumnWords | None) -> Iterator[Problem]:
    """`look`: None where the columns of the result are not known."""
    try:
        condition = sql.predicate(expect.text)
    except sql.SqlProblem as e:
        yield expect.place.at(e.line, e.column).problem(e.code, e.message, e.hint)
        return
    if look is not None:
        yield from look.at_condition(condition, expect.place)


def _of_expected(rows: Iterable[ExampleRow], look: ColumnWords) -> Iterator[Problem]:
    """Columns that the result does not have, each where it comes first."""
    first: dict[str, Position] = {}
    for row in rows:
        for cell in row.cells:
            first.setdefault(cell.column, cell.place)
    yield from look.at_names(tuple(first), tuple(first.values()))

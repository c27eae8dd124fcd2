"""What is wrong with tests, as far as it can be told without running them.

A stored blueprint runs whatever its tests say, so these are problems of `validate` and of `test` only. Does not belong
here: the form of tests, which every blueprint has to keep to.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from controlplane.core import sql
from controlplane.core.blueprint.example_model import Example, ExampleRow, ExpectedCheck, Given
from controlplane.core.blueprint.model import Position
from controlplane.core.blueprint.problems import did_you_mean, shown
from controlplane.core.compile.nodes import Desired, Node, Transform
from controlplane.core.errors import Problem
from controlplane.core.examples.inputs import MixedTypes, declared, inferred, input_named, input_names
from controlplane.core.schema.schemas import InvalidSchema, parse_ddl
from dataplane.contract.cells import BadCell, typed
from dataplane.contract.schemas import Schema, Type
from dataplane.contract.zones import UnknownZone, zone


def problems(desired: Desired, datasets: Container[str] | None = None) -> tuple[Problem, ...]:
    """Of the tests of all components, or of those named, in order of place."""
    wanted = (node for name, node in desired.nodes.items() if datasets is None or name in datasets)
    nodes = (node for node in wanted if isinstance(node, Transform) and not node.output)
    found = {p for node in nodes for test in node.component.tests for p in _of_test(node, test, desired.nodes)}
    return tuple(sorted(found))


def _of_test(node: Transform, test: Example, nodes: Mapping[str, Node]) -> Iterator[Problem]:
    for given in test.given:
        yield from _of_given(node, given, nodes)
    yield from _of_params(node, test)
    if isinstance(test.expect, ExpectedCheck):
        yield from _of_check(test.expect)


def _of_given(node: Transform, given: Given, nodes: Mapping[str, Node]) -> Iterator[Problem]:
    name = input_named(node, given.name)
    if name is None:
        known = input_names(node)
        hint = did_you_mean(given.name, known) or f"its inputs are {', '.join(known) or 'none'}"
        yield _problem(given.place, "unknown-key", f"{node.component.name} has no input {shown(given.name)}", hint)
        return
    try:
        schema = parse_ddl(given.schema) if given.schema else _declared(node, name, nodes)
        if schema is None:
            inferred(given.rows)
            return
    except InvalidSchema as e:
        yield _problem(given.place, e.code, str(e), "for example: year INT, name STRING")
    except MixedTypes as e:
        yield _problem(given.place, "wrong-type", str(e), 'for example: {schema: "id INT", rows: [...]}')
    else:
        for row in given.rows:
            yield from row_problems(row, schema, given.name, str(node.spark["timezone"]))


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
            yield _problem(cell.place, "unknown-key", f"{name} has no column {shown(cell.column)}", hint)
        elif fault := _fault(kind, cell.value, timezone):
            yield _problem(cell.place, "wrong-type", f"{cell.column}: {fault}", "")


def _fault(kind: Type, value: object, timezone: str) -> str:
    try:
        typed(kind, value, zone(timezone))
    except (BadCell, UnknownZone) as e:
        return str(e)
    return ""


def _of_params(node: Transform, test: Example) -> Iterator[Problem]:
    known = [name for name, _ in node.body.params]
    for name, _ in test.params:
        if name not in known:
            hint = did_you_mean(name, known) or f"its parameters are {', '.join(known) or 'none'}"
            message = f"{node.component.name} has no parameter {shown(name)}"
            yield _problem(test.params_place, "unknown-key", message, hint)


def _of_check(expect: ExpectedCheck) -> Iterator[Problem]:
    try:
        sql.predicate(expect.text)
    except sql.SqlProblem as e:
        yield _problem(expect.place.at(e.line, e.column), e.code, e.message, e.hint)


def _problem(at: Position, code: str, message: str, hint: str) -> Problem:
    return Problem(at.file, at.line, at.column, code, message, hint)

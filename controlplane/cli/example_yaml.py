"""A test as the YAML that a blueprint has below a component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.cli.example_views import flow
from controlplane.core.blueprint.example_model import (
    ExampleRow,
    ExpectedRows,
    Given,
    TransformExample,
)

INDENT = "    "  # of a component's keys


def block(test: TransformExample) -> str:
    return "".join(f"{INDENT}{line}\n" for line in _lines(test))


def _lines(test: TransformExample) -> Iterator[str]:
    yield "tests:"
    yield f"  - name: {flow(test.name)}"
    yield "    given:"
    for rows_given in test.given:
        yield from _given_lines(rows_given)
    if test.partition is not None:
        yield f"    partition: {flow(test.partition)}"
    if test.as_of:
        yield f"    as_of: {flow(test.as_of)}"
    assert isinstance(test.expect, ExpectedRows)
    yield from _rows("    expect:", "      ", test.expect.rows)


def _given_lines(input_rows: Given) -> Iterator[str]:
    name = f"      {flow(input_rows.name)}:"
    if not input_rows.schema:
        yield from _rows(name, "        ", input_rows.rows)
        return
    yield name
    yield f"        schema: {flow(input_rows.schema)}"
    yield from _rows("        rows:", "          ", input_rows.rows)


def _rows(key: str, indent: str, rows: Sequence[ExampleRow]) -> Iterator[str]:
    if not rows:
        yield f"{key} []"
        return
    yield key
    for row in rows:
        cells = ", ".join(f"{flow(cell.column)}: {flow(cell.value)}" for cell in row.cells)
        yield f"{indent}- {{{cells}}}"

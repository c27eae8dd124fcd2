"""Tests of a transform as the blueprint has them: given rows, and the expected result.

A test is called an example in the code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from controlplane.core.blueprint.text_places import ParamValue, Position, TextPlace

Plain: TypeAlias = "ParamValue | list[Plain] | dict[str, Plain]"  # a value as YAML has it


@dataclass(frozen=True, slots=True)
class ExampleCell:
    """One column of a row. `place` is that of the value."""

    column: str
    place: Position
    value: Plain


@dataclass(frozen=True, slots=True)
class ExampleRow:
    """Columns that are not named are NULL."""

    place: Position
    cells: tuple[ExampleCell, ...]

    @property
    def values(self) -> dict[str, Plain]:
        return {cell.column: cell.value for cell in self.cells}


@dataclass(frozen=True, slots=True)
class ExampleFile:
    """A file of rows beside the blueprint. `format` and `options` are None where they are those of
    the input."""

    path: str
    format: str | None
    options: tuple[tuple[str, str], ...] | None


@dataclass(frozen=True, slots=True)
class Given:
    """The rows of one input. `schema`: its columns as DDL; empty where the input's own are
    meant."""

    name: str
    place: Position
    rows: tuple[ExampleRow, ...]
    schema: str = ""
    file: ExampleFile | None = None


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """Exactly these rows, of the columns that they name.

    `tolerance`: by how much floats may differ, as a share of the expected value, or of 1 where that
    is more.
    """

    rows: tuple[ExampleRow, ...]
    is_ordered: bool
    tolerance: float


@dataclass(frozen=True, slots=True)
class ExpectedCheck:
    """A condition that every row of the result meets; there is at least one row."""

    text: str
    place: TextPlace


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """An error whose message, or condition, holds this text."""

    text: str


Expected: TypeAlias = ExpectedRows | ExpectedCheck | ExpectedError


@dataclass(frozen=True, slots=True)
class TransformExample:
    """One test. `params` replace those of the transform; `as_of` is the time that SQL reads as the
    clock."""

    name: str
    place: Position
    given: tuple[Given, ...]
    params: tuple[tuple[str, ParamValue], ...]
    params_place: Position
    partition: str | None
    as_of: str
    expect: Expected

"""The answer of `headgate test`, as types."""

from __future__ import annotations

from typing import Literal, TypeAlias

from typing_extensions import TypedDict

from controlplane.core.model.answers import ErrorReport
from controlplane.core.model.json_values import JsonObject
from dataplane.contract.schemas import Json

ExampleState: TypeAlias = Literal["passed", "failed"]


class ChangedRow(TypedDict):
    """A row whose values differ in `columns`."""

    expected: list[Json]
    found: list[Json]
    columns: list[str]


class ExampleDifference(TypedDict):
    """`moved`: the first row, counted from 1, that stands in another place; null where rows
    themselves differ."""

    columns: list[str]
    missing: list[list[Json]]
    unexpected: list[list[Json]]
    changed: list[ChangedRow]
    moved: int | None


class ExampleEntry(TypedDict):
    """One test. `message` says why it failed; `notes` are remarks about its inputs."""

    dataset: str
    name: str
    file: str
    line: int
    column: int
    state: ExampleState
    seconds: float
    message: str
    error: ErrorReport | None
    difference: ExampleDifference | None
    notes: list[str]


class ExampleAnswer(TypedDict):
    """What a service's Spark answers to one question of a test."""

    answer: JsonObject


class ExamplesAnswer(TypedDict):
    """`headgate test`."""

    state: ExampleState
    passed: int
    failed: int
    wall_s: float
    tests: list[ExampleEntry]

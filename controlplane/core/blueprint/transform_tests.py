"""The language of `tests:`, the tests of a transform."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from controlplane.core.blueprint import text_forms
from controlplane.core.blueprint.example_model import (
    ExampleCell,
    ExampleFile,
    ExampleRow,
    Expected,
    ExpectedCheck,
    ExpectedError,
    ExpectedRows,
    Given,
    Plain,
    TransformExample,
)
from controlplane.core.blueprint.expectations import NO_TEXT
from controlplane.core.blueprint.problems import BlueprintRefused, shown
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_places import ParamValue
from controlplane.core.blueprint.value_kinds import (
    Choice,
    ColumnsText,
    Fault,
    JsonSchema,
    Options,
    Params,
    Reading,
    SourceText,
    Text,
    entries_of,
    wrong_type,
)
from controlplane.core.blueprint.yaml_nodes import Entries, Items, Node, Scalar

MOST_ROWS: Final = 1_000
TOLERANCE: Final = 1e-9
ROW_HINT: Final = "write a line such as: - {id: 1, name: Ada}"
NO_ROWS: tuple[ExampleRow, ...] = ()


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExampleRows:
    """A list of rows, each a mapping of columns to values. Rows may be equal."""

    def read(self, node: Node, reading: Reading) -> tuple[ExampleRow, ...]:
        if not isinstance(node, Items):
            raise wrong_type(node, "a list of rows", reading, ROW_HINT)
        if len(node.items) > MOST_ROWS:
            message = f"{len(node.items):,} rows; a test has at most {MOST_ROWS:,}"
            raise reading.refuse(
                node, "invalid-value", message, "keep the rows that matter, or name a `file`"
            )
        return tuple(_rows(node, reading))

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": {"type": "object"}, "maxItems": MOST_ROWS}


def _rows(items: Items, reading: Reading) -> Iterator[ExampleRow]:
    for item in items.items:
        try:
            yield _row(item, reading)
        except BlueprintRefused:
            continue


def _row(node: Node, reading: Reading) -> ExampleRow:
    if not isinstance(node, Entries):
        raise wrong_type(node, "a row: a mapping of columns to values", reading, ROW_HINT)
    cells = [ExampleCell(key.text, value.place, _plain(value)) for key, value in node.entries]
    return ExampleRow(node.place, tuple(cells))


def _plain(node: Node) -> Plain:
    match node:
        case Scalar(value=value):
            return value
        case Items(items=items):
            return [_plain(item) for item in items]
        case Entries(entries=entries):
            return {key.text: _plain(value) for key, value in entries}
        case _:
            raise BlueprintRefused  # reported already


# --- given ----------------------------------------------------------------------------------------


NO_OPTIONS: tuple[tuple[str, str], ...] | None = None
ROWS = Key(
    "rows", ExampleRows(), NO_ROWS, "Rows of the input; columns that a row does not name are NULL."
)
FILE = Key(
    "file",
    Text((text_forms.path, text_forms.no_glob)),
    "",
    "A file of rows, relative to the blueprint.",
    example="transforms/scores.py",
)
FORMAT: Key[str | None] = Key(
    "format",
    Choice(("csv", "json", "parquet", "orc", "text")),
    None,
    "Format of the file; else that of the input.",
)
OPTIONS = Key(
    "options",
    Options(),
    NO_OPTIONS,
    "Options of Spark's reader; else those of the input.",
    example={"header": True},
)
SCHEMA = Key(
    "schema",
    ColumnsText(),
    "",
    "Columns as DDL; else those of the input.",
    example="year INT, name STRING",
)
_OF_FILES = (FORMAT, OPTIONS)


def _given_rows(
    fields: Fields, reading: Reading
) -> tuple[tuple[ExampleRow, ...], str, ExampleFile | None]:
    if not fields[FILE]:
        for key in fields.present(_OF_FILES):
            message = f"{key.text!r} belongs to a 'file'"
            reading.problems.add(
                key.place, "conflicting-keys", message, "name the file, or remove this key"
            )
        return fields[ROWS], fields[SCHEMA], None
    return NO_ROWS, fields[SCHEMA], ExampleFile(fields[FILE], fields[FORMAT], fields[OPTIONS])


GIVEN_SECTION = Nested(
    Section((ROWS, FILE, FORMAT, OPTIONS, SCHEMA), one_of=("rows", "file")), _given_rows
)


@dataclass(frozen=True, slots=True)
class ExampleInputs:
    """Rows by the names of inputs: a list of rows, or a mapping with `rows` or `file`."""

    def read(self, node: Node, reading: Reading) -> tuple[Given, ...]:
        entries = entries_of(node, reading, "a mapping of inputs to rows").entries
        return tuple(_each_given(entries, reading))

    def schema(self) -> JsonSchema:
        return {
            "type": "object",
            "additionalProperties": {"oneOf": [ExampleRows().schema(), GIVEN_SECTION.schema()]},
        }


def _each_given(entries: tuple[tuple[Scalar, Node], ...], reading: Reading) -> Iterator[Given]:
    for key, value in entries:
        try:
            if isinstance(value, Entries):
                rows, schema, file = GIVEN_SECTION.read(value, reading)
                yield Given(key.text, key.place, rows, schema, file)
            else:
                yield Given(key.text, key.place, ExampleRows().read(value, reading))
        except BlueprintRefused:
            continue


# --- expect ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A number that is not negative."""

    def read(self, node: Node, reading: Reading) -> float:
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong_type(node, "a number such as 0.001", reading)
        if not 0 <= value < float("inf"):
            raise reading.refuse(node, "invalid-value", "expected a number of 0 or more")
        return float(value)

    def schema(self) -> JsonSchema:
        return {"type": "number", "minimum": 0}


EXPECTED_ROWS = Key(
    "rows", ExampleRows(), NO_ROWS, "All rows of the result, by the columns that are named."
)
ORDER = Key("order", Choice(("any", "exact")), "any", "Whether the order of the rows matters.")
TOLERANCE_KEY = Key(
    "tolerance",
    Tolerance(),
    TOLERANCE,
    "By how much floats may differ, of the larger of 1 and the value.",
)
CHECK = Key(
    "check",
    SourceText("SQL"),
    NO_TEXT,
    "A condition that every row of the result meets.",
    example="carrier IS NOT NULL",
)
ERROR = Key("error", Text(), "", "A part of the message of an error.")


def _expected(fields: Fields, reading: Reading) -> Expected:
    if fields.present((CHECK,)) and fields[CHECK].text:
        _report_row_keys(fields, reading)
        return ExpectedCheck(*fields[CHECK])
    if fields.present((ERROR,)):
        _report_row_keys(fields, reading)
        return ExpectedError(fields[ERROR])
    if not fields.present((EXPECTED_ROWS,)):
        raise BlueprintRefused  # one of the three is missing, which has been reported
    return ExpectedRows(fields[EXPECTED_ROWS], fields[ORDER] == "exact", fields[TOLERANCE_KEY])


def _report_row_keys(fields: Fields, reading: Reading) -> None:
    for key in fields.present((ORDER, TOLERANCE_KEY)):
        reading.problems.add(
            key.place, "conflicting-keys", f"{key.text!r} belongs to 'rows'", "remove it"
        )


EXPECT_SECTION = Nested(
    Section((EXPECTED_ROWS, ORDER, TOLERANCE_KEY, CHECK, ERROR), one_of=("rows", "check", "error")),
    _expected,
)


@dataclass(frozen=True, slots=True)
class ExpectedResult:
    """A list of rows, or a mapping with `rows`, `check` or `error`."""

    def read(self, node: Node, reading: Reading) -> Expected:
        if isinstance(node, Entries):
            return EXPECT_SECTION.read(node, reading)
        return ExpectedRows(ExampleRows().read(node, reading), False, TOLERANCE)

    def schema(self) -> JsonSchema:
        return {"oneOf": [ExampleRows().schema(), EXPECT_SECTION.schema()]}


# --- tests ----------------------------------------------------------------------------------------


def _time_fault(text: str) -> Fault | None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return Fault(
            "invalid-value", f"{shown(text)} is no time", "for example 2013-07-04 12:00:00"
        )
    return None


NO_GIVEN: tuple[Given, ...] = ()
NO_PARAMS: tuple[tuple[str, ParamValue], ...] = ()
NO_EXPECTED: Expected = ExpectedRows((), False, TOLERANCE)
NAME = Key(
    "name",
    Text(),
    "",
    "What the test is called in results.",
    is_required=True,
    example="known carrier",
)
GIVEN = Key(
    "given",
    ExampleInputs(),
    NO_GIVEN,
    "Rows of the inputs; an input that is not named has none.",
    example={"flights": [{"carrier": "UA"}]},
)
PARAMS = Key(
    "params",
    Params(Text()),
    NO_PARAMS,
    "Parameters in place of those of the transform.",
    example={"minimum": 0},
)
PARTITION: Key[str | None] = Key(
    "partition",
    Text(),
    None,
    "The key of the task, of inputs that are read by key.",
    example="{month}.csv",
)
AS_OF = Key(
    "as_of",
    Text((_time_fault,)),
    "",
    "The time that SQL reads as the clock: 2013-07-04 12:00:00.",
    example="2013-07-04 12:00:00",
)
EXPECT = Key(
    "expect",
    ExpectedResult(),
    NO_EXPECTED,
    "Rows, a check, or an error.",
    is_required=True,
    example=[{"carrier": "UA", "n": 2}],
)


def _example(fields: Fields, _: Reading) -> TransformExample:
    if EXPECT.name not in fields.values or not fields[NAME]:
        raise BlueprintRefused  # reported
    params = fields.present((PARAMS,))
    return TransformExample(
        name=fields[NAME],
        place=fields.place,
        given=fields[GIVEN],
        params=fields[PARAMS],
        params_place=params[0].place if params else fields.place,
        partition=fields[PARTITION],
        as_of=fields[AS_OF],
        expect=fields[EXPECT],
    )


EXAMPLE = Nested(Section((NAME, GIVEN, PARAMS, PARTITION, AS_OF, EXPECT)), _example)


@dataclass(frozen=True, slots=True)
class ExampleList:
    """A list in which every test has a name of its own."""

    def read(self, node: Node, reading: Reading) -> tuple[TransformExample, ...]:
        if not isinstance(node, Items):
            raise wrong_type(
                node, "a list of tests", reading, "begin each with a line `- name: ...`"
            )
        examples: dict[str, TransformExample] = {}
        for item in node.items:
            try:
                example = EXAMPLE.read(item, reading)
            except BlueprintRefused:
                continue
            if example.name in examples:
                message = f"two tests are called {shown(example.name)}"
                reading.problems.add(
                    example.place, "invalid-value", message, "give each a 'name' of its own"
                )
            examples[example.name] = example
        return tuple(examples.values())

    def schema(self) -> JsonSchema:
        return {"type": "array", "items": EXAMPLE.schema()}


NO_EXAMPLES: tuple[TransformExample, ...] = ()
TESTS = Key(
    "tests",
    ExampleList(),
    NO_EXAMPLES,
    "Tests of the transform: rows given, and what is expected.",
    example=[{"name": "one", "given": {"flights": [{"carrier": "UA"}]}, "expect": [{"n": 1}]}],
)

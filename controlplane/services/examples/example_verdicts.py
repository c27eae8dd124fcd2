"""Running tests of blueprints: each as one task of its transform, over the rows that it gives."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, assert_never

from controlplane.core.blueprint.example_model import (
    ExampleRow,
    ExpectedCheck,
    ExpectedError,
    ExpectedRows,
    Given,
    TransformExample,
)
from controlplane.core.blueprint.problems import did_you_mean, shown
from controlplane.core.compile.nodes import Desired, Transform
from controlplane.core.errors import Problem
from controlplane.core.examples.example_faults import row_problems
from controlplane.core.examples.example_inputs import given_by_input
from controlplane.core.examples.row_difference import Difference, difference
from controlplane.core.model.answers import ErrorReport
from controlplane.core.model.answers.examples import ChangedRow, ExampleDifference, ExampleEntry
from controlplane.core.plan.transform.transform_jobs import logic_job
from controlplane.operations.inspect import json_views
from controlplane.services.examples.input_columns import (
    AnalysedColumns,
    ExampleRefused,
    file_of,
    notes,
)
from controlplane.services.examples.port import ExampleRunner, RunnerLost
from dataplane.contract.cells import BadCell, same
from dataplane.contract.example_protocol import (
    CHECK,
    ExampleQuestion,
    FileOfRows,
    RowsFound,
    error_in,
    rows_in,
)
from dataplane.contract.results import EXPECTATION, TaskError
from dataplane.contract.schemas import Json, Schema
from dataplane.contract.zones import zone

MOST_ROWS: Final = 10_000  # of a result
FAILING_ROWS: Final = 20  # of a check, that are reported


@dataclass(frozen=True, slots=True)
class ExampleVerdict:
    """What a test came to. It has passed if there is no message."""

    message: str = ""
    error: ErrorReport | None = None
    difference: ExampleDifference | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedExample:
    """A test, and the transform that it is of."""

    node: Transform
    test: TransformExample

    @property
    def title(self) -> str:
        return f"{self.node.dataset}: {self.test.name}"


def named_tests(desired: Desired, pattern: str = "") -> list[NamedExample]:
    """In the order of the data; those whose dataset or name holds the pattern."""
    nodes = (desired.nodes[dataset] for dataset in desired.order)
    transforms = [node for node in nodes if node.is_transform and not node.output]
    tests = [NamedExample(node, test) for node in transforms for test in node.component.tests]
    return [named for named in tests if pattern.lower() in named.title.lower()]


def run(
    desired: Desired, tests: Sequence[NamedExample], runner: ExampleRunner, now: float
) -> Iterator[ExampleEntry]:
    """One after the other. `now`: the time that SQL reads where a test says none."""
    columns = AnalysedColumns(desired, runner)
    for named in tests:
        began = time.monotonic()
        verdict = _verdict(ExampleCase(desired, columns, named.node, named.test, now))
        yield _entry(named, verdict, time.monotonic() - began)


def _entry(named: NamedExample, verdict: ExampleVerdict, seconds: float) -> ExampleEntry:
    place = named.test.place
    return {
        "dataset": named.node.dataset,
        "name": named.test.name,
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "state": "failed" if verdict.message else "passed",
        "seconds": round(seconds, 3),
        "message": verdict.message,
        "error": verdict.error,
        "difference": verdict.difference,
        "notes": list(verdict.notes),
    }


# --- one test -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExampleCase:
    """A test of a transform that is to run. `now`: the time that SQL reads where the test says
    none."""

    desired: Desired
    columns: AnalysedColumns
    node: Transform
    test: TransformExample
    now: float

    @property
    def timezone(self) -> str:
        return str(self.node.spark["timezone"])

    @property
    def as_of(self) -> float:
        if not self.test.as_of:
            return self.now
        moment = datetime.fromisoformat(self.test.as_of)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone(self.timezone))).timestamp()


def _verdict(case: ExampleCase) -> ExampleVerdict:
    try:
        request, remarks = question(case)
        answer = case.columns.runner.ask(request)
    except ExampleRefused as e:
        return ExampleVerdict(str(e))
    except RunnerLost as e:
        return ExampleVerdict(f"{e.code}: {e}")
    error = error_in(answer)
    verdict = _of_rows(case, rows_in(answer)) if error is None else _of_error(case, error)
    return ExampleVerdict(
        verdict.message,
        verdict.error,
        verdict.difference,
        tuple(remarks) if verdict.message else (),
    )


def question(case: ExampleCase) -> tuple[ExampleQuestion, list[str]]:
    """The request to the runner, and notes for the user. Raises ExampleRefused."""
    node, test = case.node, case.test
    by_input = given_by_input(node, test.given)
    slots = {slot.name: slot for slot in node.slots}
    files = {
        name: f
        for name, input_rows in by_input.items()
        if (f := file_of(case.desired, node, slots.get(name), input_rows))
    }
    full_schemas = {
        name: case.columns.of_input(slot, by_input.get(name), files.get(name))
        for name, slot in slots.items()
    }
    read = {name: node.read_schema(slot, full_schemas[name]) for name, slot in slots.items()}
    if node.fold is not None:
        full_schemas[node.fold.name] = read[node.fold.name] = node.fold.schema
    job = logic_job(node, read, case.as_of)
    request: ExampleQuestion = {
        "ask": "run",
        "job": {**job, "params": {**job["params"], **dict(test.params)}},  # type: ignore[typeddict-item]  # of both
        "rows": {
            name: _rows(case, input_rows, full_schemas[name], read[name])
            for name, input_rows in by_input.items()
            if name not in files
        },
        "files": {name: _with_schema(file, full_schemas[name]) for name, file in files.items()},
        "partition": test.partition,
        "limit": MOST_ROWS + 1,
    }
    if isinstance(test.expect, ExpectedCheck):
        request["check"] = test.expect.text
        request["limit"] = FAILING_ROWS
    return request, notes(case.columns, node.slots, by_input)


def _with_schema(file: FileOfRows, schema: Schema) -> FileOfRows:
    return {**file, "schema": schema}


def _rows(
    case: ExampleCase, input_rows: Given, full_schema: Schema, read: Schema
) -> list[dict[str, Json]]:
    """The columns that the code reads. Raises ExampleRefused for rows that cannot be such."""
    faults = [
        fault
        for row in input_rows.rows
        for fault in row_problems(row, full_schema, input_rows.name, case.timezone)
    ]
    if faults:
        raise ExampleRefused("\n".join(map(_problem_words, faults)))
    names = {field["name"] for field in read["fields"]}
    return [
        {name: value for name, value in row.values.items() if name in names}
        for row in input_rows.rows
    ]


def _problem_words(fault: Problem) -> str:
    hint = f" ({fault.hint})" if fault.hint else ""
    return f"line {fault.line}: {fault.message}{hint}"


# --- what came of it ------------------------------------------------------------------------------


def _of_error(case: ExampleCase, error: TaskError) -> ExampleVerdict:
    report = _report(case, error)
    expect = case.test.expect
    condition = error["condition"] or ""
    if isinstance(expect, ExpectedError) and error["kind"] == "user":
        if expect.text in error["message"] or expect.text in condition:
            return ExampleVerdict()
        return ExampleVerdict(
            f"another error than {shown(expect.text)}: {_first_line(error)}", report
        )
    return ExampleVerdict(_first_line(error), report)


def _first_line(error: TaskError) -> str:
    line = next(iter(error["message"].splitlines()), "")
    condition = error["condition"]
    if not condition or line.startswith(condition):
        return line
    return f"{condition}: {line}"


def _report(case: ExampleCase, error: TaskError) -> ErrorReport:
    """With its place in the blueprint."""
    expect = case.test.expect
    report = json_views.error(error, case.node)
    assert report is not None
    if isinstance(expect, ExpectedCheck) and error["file"] == EXPECTATION + CHECK:
        place = expect.place.at(error["line"] or 1, error["column"] or 1)
        report["file"], report["line"], report["column"] = place.file, place.line, place.column
    return report


def _of_rows(case: ExampleCase, answer: RowsFound) -> ExampleVerdict:
    match case.test.expect:
        case ExpectedError(text=text):
            return ExampleVerdict(f"no error, and one with {shown(text)} was expected")
        case ExpectedCheck() as check:
            return _of_check(check, answer)
        case ExpectedRows() as rows:
            return _of_expected(case, rows, answer)
        case other:
            assert_never(other)


def _of_check(check: ExpectedCheck, answer: RowsFound) -> ExampleVerdict:
    if not answer["count"]:
        return ExampleVerdict("the result has no row that could meet the check")
    if not answer["rows"]:
        return ExampleVerdict()
    names = [field["name"] for field in answer["schema"]["fields"]]
    row_difference = _row_difference(
        names, Difference(unexpected=tuple(map(tuple, answer["rows"])))
    )
    return ExampleVerdict(
        f"rows do not meet the check: {' '.join(check.text.split())}", difference=row_difference
    )


def _of_expected(case: ExampleCase, expect: ExpectedRows, answer: RowsFound) -> ExampleVerdict:
    if len(answer["rows"]) > MOST_ROWS:
        return ExampleVerdict(
            f"the result has more than {MOST_ROWS:,} rows: use a check, or give fewer rows"
        )
    types = {field["name"]: field["type"] for field in answer["schema"]["fields"]}
    names = _compared(expect.rows, types)
    unknown = [name for name in names if name not in types]
    if unknown:
        hint = did_you_mean(unknown[0], types) or f"its columns are {', '.join(types)}"
        return ExampleVerdict(f"the result has no column {shown(unknown[0])} ({hint})")
    try:
        expected_rows = [
            _expected_row(row, names, answer["schema"], case.timezone) for row in expect.rows
        ]
    except ExampleRefused as e:
        return ExampleVerdict(str(e))
    places = [list(types).index(name) for name in names]
    rows = [[row[i] for i in places] for row in answer["rows"]]
    differs = difference(
        expected_rows, rows, tolerance=expect.tolerance, is_ordered=expect.is_ordered
    )
    return (
        ExampleVerdict(_words(differs), difference=_row_difference(names, differs))
        if differs
        else ExampleVerdict()
    )


def _compared(rows: Sequence[ExampleRow], types: dict[str, Json]) -> list[str]:
    """The columns that expected rows name; all of the result where there are none."""
    return list(dict.fromkeys(cell.column for row in rows for cell in row.cells)) or list(types)


def _expected_row(
    row: ExampleRow, names: Sequence[str], schema: Schema, timezone: str
) -> list[Json]:
    types = {field["name"]: field["type"] for field in schema["fields"]}
    values, place = row.values, zone(timezone)
    try:
        return [same(types[name], values.get(name), place) for name in names]
    except BadCell as e:
        raise ExampleRefused(f"line {row.place.line}: an expected value: {e}") from e


def _words(differs: Difference) -> str:
    if differs.moved is not None:
        return f"the rows are those that are expected, in another order from row {differs.moved + 1} on"
    counts = (
        ("missing", differs.missing),
        ("unexpected", differs.unexpected),
        ("changed", differs.changed),
    )
    return "rows differ: " + ", ".join(f"{len(rows)} {word}" for word, rows in counts if rows)


def _row_difference(names: Sequence[str], differs: Difference) -> ExampleDifference:
    changed: list[ChangedRow] = [
        {
            "expected": list(change.expected),
            "found": list(change.actual),
            "columns": [names[i] for i in change.cells],
        }
        for change in differs.changed
    ]
    return {
        "columns": list(names),
        "missing": [list(row) for row in differs.missing],
        "unexpected": [list(row) for row in differs.unexpected],
        "changed": changed,
        "moved": None if differs.moved is None else differs.moved + 1,
    }

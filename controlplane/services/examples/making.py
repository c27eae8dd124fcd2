"""Making a test from existing partitions: rows that a task of the transform read, and its result
for them.

The result is that of the sampled rows, computed as tests are, so that the test passes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Protocol

from controlplane.core.blueprint.example_model import (
    ExampleCell,
    ExampleRow,
    ExpectedRows,
    Given,
    TransformExample,
)
from controlplane.core.blueprint.problems import shown
from controlplane.core.blueprint.text_places import Position
from controlplane.core.compile.nodes import Desired, Slot, Transform
from controlplane.core.errors import HeadgateError, NotFound
from controlplane.core.examples.example_inputs import PREVIOUS, MixedTypes, inferred
from controlplane.core.examples.row_key import has_key
from controlplane.core.partitioning import column_fault, key_of, key_parts
from controlplane.services.examples.example_verdicts import ExampleCase, question
from controlplane.services.examples.input_columns import AnalysedColumns
from controlplane.services.examples.port import ExampleRunner
from dataplane.contract.cells import BadCell, ddl, same
from dataplane.contract.example_protocol import RowsFound, error_in, rows_in
from dataplane.contract.schemas import Json, Schema, select_columns
from dataplane.contract.zones import zone

Row = Mapping[str, Json]
Rows = list[dict[str, Json]]

# Rows of an input that is read whole, of which those are taken that others may join
SCANNED: Final = 100_000
POOL: Final = 1_000  # rows of an input that are looked at; a test has no more
NOWHERE: Final = Position("", 1, 1)
ROWS: Final = 20  # of each input, unless another number is asked for


class NoSample(HeadgateError):
    """Rows of which no test can be made."""

    code = "no-sample"


class Committed(Protocol):
    """Committed rows and partitions. Datasets without any have neither."""

    def schema(self, dataset: str) -> Schema | None: ...

    def has(self, dataset: str, partition: str) -> bool: ...

    def rows(self, dataset: str, partition: str | None) -> Iterator[dict[str, Json]]:
        """The rows of one partition, or of all."""

    def before(self, dataset: str, partition: str) -> str | None:
        """The partition before, in the order of keys."""

    def some(self, dataset: str) -> list[str]:
        """The first few partitions, for messages."""


@dataclass(frozen=True, slots=True)
class ExampleInput:
    """What a task reads of one input, or the first rows of it. `schema`: as it is committed."""

    name: str
    schema: Schema
    rows: Rows


@dataclass(frozen=True, slots=True)
class ExampleTask:
    """A task of a transform whose rows become a test. `partition` is empty where no key separates
    rows."""

    node: Transform
    key: str
    partition: str | None
    inputs: tuple[ExampleInput, ...]


# --- the task -------------------------------------------------------------------------------------


def task_like(
    desired: Desired, dataset: str, partition: str, committed: Committed, most: int = ROWS
) -> ExampleTask:
    """The task to make a test of. Raises NotFound for a dataset, partition or object that does not
    exist, and NoSample for a dataset that has no tests."""
    node = _transform(desired, dataset, committed)
    keys = _keys(desired, node, partition)
    own = next((key for key in keys if committed.has(dataset, key)), None)
    key = (
        own
        if own is not None
        else next((key for key in keys if _is_read(node, key, committed)), None)
    )
    if key is None:
        raise NotFound(_unknown(node, partition, committed))
    inputs = [
        *_inputs(node, key, committed, most, is_own=own is not None),
        *_before(node, key, committed),
    ]
    is_by_key = own is not None and any(slot.mode == "by" for slot in node.slots)
    return ExampleTask(node, key, key if is_by_key else None, tuple(inputs))


def _transform(desired: Desired, dataset: str, committed: Committed) -> Transform:
    """Whose inputs have data."""
    node = desired.nodes.get(dataset)
    if node is None:
        raise NotFound(f"there is no dataset {dataset}")
    if not node.is_transform or node.output:
        raise NoSample(f"{dataset} is no transform: only transforms have tests")
    for slot in node.slots:
        if committed.schema(slot.dataset) is None:
            raise NotFound(f"{slot.dataset}, which {dataset} reads, has no committed data yet")
    return node


def _keys(desired: Desired, node: Transform, partition: str) -> list[str]:
    """What may be meant: a key itself, or the key of an object of this name in a source
    upstream."""
    upstream = (
        desired.nodes.get(dataset) for dataset in sorted(desired.graph.upstream([node.dataset]))
    )
    sources = (node_above for node_above in upstream if node_above and node_above.is_source)
    named = (key_of(partition, source.read.partition) for source in sources)
    return list(dict.fromkeys([partition, *filter(None, named)]))


def _is_read(node: Transform, key: str, committed: Committed) -> bool:
    return any(committed.has(slot.dataset, key) for slot in node.slots)


def _unknown(node: Transform, partition: str, committed: Committed) -> str:
    datasets = (node.dataset, *(slot.dataset for slot in node.slots))
    present_keys = dict.fromkeys(
        key for dataset in datasets for key in committed.some(dataset) if key
    )
    there = f"; there is {', '.join([*present_keys][:3])}" if present_keys else ""
    if not present_keys and "" in committed.some(node.dataset):
        there = "; it has one partition, whose key is empty: --like ''"
    return f"{shown(partition)} is no partition of {node.dataset}, and none of what it reads{there}"


def _inputs(
    node: Transform, key: str, committed: Committed, most: int, *, is_own: bool
) -> Iterator[ExampleInput]:
    of_key = {slot.name: _of_key(node, slot, key, committed, is_own=is_own) for slot in node.slots}
    sampled = _values_in([row for rows in of_key.values() for row in (rows or ())[:most]])
    for slot in node.slots:
        schema, rows = _schema(slot, committed), of_key[slot.name]
        if rows is None:
            is_of_key = _key_test(node, slot, key, schema) if is_own else lambda _: False
            rows = _alike(committed.rows(slot.dataset, None), sampled, is_of_key)
        yield ExampleInput(slot.name, schema, rows)


def _schema(slot: Slot, committed: Committed) -> Schema:
    """The schema of an input that has data."""
    schema = committed.schema(slot.dataset)
    assert schema is not None
    return schema


def _of_key(
    node: Transform, slot: Slot, key: str, committed: Committed, *, is_own: bool
) -> Rows | None:
    """The rows of an input that belong to this key; None where it is read whole."""
    if is_own and slot.mode == "by":
        is_of_key = _key_test(node, slot, key, _schema(slot, committed))
        # It is mostly named by the same key
        is_named = slot.reach is None and committed.has(slot.dataset, key)
        partitions = (key, None) if is_named else (None,)
        rows = (
            filter(is_of_key, committed.rows(slot.dataset, partition)) for partition in partitions
        )
        return next(filter(None, map(_first, rows)), [])
    if committed.has(slot.dataset, key):
        return _first(committed.rows(slot.dataset, key))
    if is_own and slot.mode == "each":
        return []
    return None


def _first(rows: Iterator[dict[str, Json]]) -> Rows:
    return [row for row, _ in zip(rows, range(POOL), strict=False)]


Values = Mapping[str, Set[str]]  # by column


def _values_in(rows: Rows) -> Values:
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.items():
            if value is not None:
                values.setdefault(name.lower(), set()).add(str(value))
    return values


def _alike(
    rows: Iterator[dict[str, Json]], values: Values, is_of_key: Callable[[Row], bool]
) -> Rows:
    """The rows of the key, where there are any, else all; first those that share most values with
    the sampled ones: in columns of the same name, or else texts. Joins find such rows."""
    some = (row for row, _ in zip(rows, range(SCANNED), strict=False))
    texts = {text for of_column in values.values() for text in of_column if len(text) > 1}
    best = heapq.nlargest(
        POOL, some, key=lambda row: (is_of_key(row), *_shared(row, values, texts))
    )
    return list(filter(is_of_key, best)) or best


def _shared(row: Mapping[str, Json], values: Values, texts: Container[str]) -> tuple[int, int]:
    of_name = sum(str(value) in values.get(name.lower(), ()) for name, value in row.items())
    return of_name, sum(isinstance(value, str) and value in texts for value in row.values())


def _key_test(node: Transform, slot: Slot, key: str, schema: Schema) -> Callable[[Row], bool]:
    """Whether a row of an input has the key of the task. No row does where the columns of the key
    are no columns of the input. The test raises NoSample for values that no test can hold."""
    columns = slot.columns or tuple(part.column for part in node.key)
    is_exact = node.is_case_sensitive
    pairs = zip(node.key, columns, strict=True)
    if not columns or any(
        column_fault(schema, part, name, case_sensitive=is_exact) for part, name in pairs
    ):
        return lambda _: False
    parts = key_parts(node.key, columns, schema, case_sensitive=is_exact)
    place = zone(str(node.spark["timezone"]))
    keys = node.keys_read(slot, key)

    def is_of_key(row: Row) -> bool:
        try:
            return any(has_key(row, schema, parts, read, place) for read in keys)
        except BadCell as e:
            raise NoSample(f"{slot.name}: {e}") from e

    return is_of_key


def _before(node: Transform, key: str, committed: Committed) -> Iterator[ExampleInput]:
    """The partition before, of a fold."""
    if node.fold is None:
        return
    before = committed.before(node.dataset, key)
    if before is not None:
        yield ExampleInput(PREVIOUS, node.fold.schema, _first(committed.rows(node.dataset, before)))


# --- the sample -----------------------------------------------------------------------------------


def made(
    desired: Desired, task: ExampleTask, runner: ExampleRunner, most: int, now: float
) -> TransformExample:
    """The test. Raises NoSample where no rows of such a number give a row, or the transform
    fails."""
    attempts = _Attempts(desired, task, AnalysedColumns(desired, runner), float(int(now)))
    rows = {task_input.name: task_input.rows[:most] for task_input in task.inputs}
    answer = attempts.result(rows)
    if not answer["rows"]:
        rows, answer = _reduced(attempts, task, most)
    if len(answer["rows"]) > POOL:
        raise NoSample(
            f"the result has more than {POOL:,} rows: make a test of fewer rows with --rows"
        )
    expect = ExpectedRows(tuple(_rows(_as_mappings(answer))), False, 1e-9)
    return replace(attempts.test(rows), expect=expect)


def _reduced(
    attempts: _Attempts, task: ExampleTask, most: int
) -> tuple[dict[str, Rows], RowsFound]:
    """A sample that gives a row: halves of more rows, as long as a half of them does."""
    rows = {task_input.name: task_input.rows for task_input in task.inputs}
    answer = attempts.result(rows)
    if not answer["rows"]:
        raise NoSample(
            f"the first {POOL:,} rows of each input of {task.key} give no row of {task.node.dataset}"
        )
    for name in rows:
        while len(rows[name]) > most:
            rows, answer = _halved(attempts, rows, name)
    return rows, answer


def _halved(
    attempts: _Attempts, rows: dict[str, Rows], name: str
) -> tuple[dict[str, Rows], RowsFound]:
    middle = len(rows[name]) // 2
    for half in (rows[name][:middle], rows[name][middle:]):
        fewer = {**rows, name: half}
        answer = attempts.result(fewer)
        if answer["rows"]:
            return fewer, answer
    raise NoSample(
        f"no half of {len(rows[name])} rows of {name} gives a row: try --rows {len(rows[name])}"
    )


@dataclass(frozen=True, slots=True)
class _Attempts:
    """Runs of one transform over several samples."""

    desired: Desired
    task: ExampleTask
    columns: AnalysedColumns
    now: float

    def result(self, rows: Mapping[str, Rows]) -> RowsFound:
        case = ExampleCase(self.desired, self.columns, self.task.node, self.test(rows), self.now)
        run, _ = question(case)
        answer = self.columns.runner.ask({**run, "limit": POOL + 1})
        error = error_in(answer)
        if error is not None:
            raise NoSample(
                f"{self.task.node.dataset} fails on a sample of {self.task.key}: {error['message']}"
            )
        return rows_in(answer)

    def test(self, rows: Mapping[str, Rows]) -> TransformExample:
        """A test with the given rows; it expects nothing yet."""
        node, inputs = (
            self.task.node,
            {task_input.name: task_input for task_input in self.task.inputs},
        )
        given_inputs = tuple(self._input_rows(inputs[name], some) for name, some in rows.items())
        return TransformExample(
            name=_free_name(node, self.task.key),
            place=NOWHERE,
            given=given_inputs,
            params=(),
            params_place=NOWHERE,
            partition=self.task.partition,
            as_of=self._as_of() if node.is_volatile and node.query is not None else "",
            expect=ExpectedRows((), False, 1e-9),
        )

    def _as_of(self) -> str:
        place = zone(str(self.task.node.spark["timezone"]))
        return datetime.fromtimestamp(self.now, place).replace(tzinfo=None).isoformat(sep=" ")

    def _input_rows(self, task_input: ExampleInput, some: Rows) -> Given:
        slot = next((slot for slot in self.task.node.slots if slot.name == task_input.name), None)
        read = task_input.schema if slot is None else _read(self.task.node, slot, task_input.schema)
        declared = read if slot is None else self.columns.of_dataset(slot.dataset)
        rows = tuple(
            _rows([_values(read, row, str(self.task.node.spark["timezone"])) for row in some])
        )
        return Given(
            task_input.name, NOWHERE, rows, "" if _is_reported(read, declared, rows) else ddl(read)
        )


def _read(node: Transform, slot: Slot, schema: Schema) -> Schema:
    """The columns that the code can see; one at least, as rows have."""
    read = node.read_schema(slot, schema)
    return (
        read
        if read["fields"]
        else select_columns(schema, [f["name"] for f in schema["fields"]][:1])
    )


def _values(schema: Schema, row: Mapping[str, Json], timezone: str) -> dict[str, Json]:
    """Values as tests write them, without NULLs."""
    place, values = zone(timezone), dict[str, Json]()
    for field in schema["fields"]:
        name = field["name"]
        try:
            value = same(field["type"], row.get(name), place)
        except BadCell as e:
            raise NoSample(f"{name}: {e}") from e
        if value is not None:
            values[name] = value
    return values


def _is_reported(read: Schema, declared_schema: Schema | None, rows: Sequence[ExampleRow]) -> bool:
    """Whether a test knows the types without a `schema`: from the blueprint, or else from the
    rows."""
    types = {field["name"]: field["type"] for field in read["fields"]}
    if declared_schema is not None:
        declared = {field["name"]: field["type"] for field in declared_schema["fields"]}
        return all(declared.get(name) == kind for name, kind in types.items())
    try:
        schema = inferred(rows).schema
    except MixedTypes:
        return False
    return {field["name"]: field["type"] for field in schema["fields"]} == types


def _as_mappings(answer: RowsFound) -> Rows:
    """The rows of a result. NULL is written once for a column that has nothing else, so that it is
    compared."""
    names = [field["name"] for field in answer["schema"]["fields"]]
    empty = {name for i, name in enumerate(names) if all(row[i] is None for row in answer["rows"])}
    rows = []
    for number, row in enumerate(answer["rows"]):
        cells = zip(names, row, strict=True)
        rows.append(
            {n: value for n, value in cells if value is not None or (n in empty and number == 0)}
        )
    return rows


def _rows(rows: Sequence[Mapping[str, Json]]) -> Iterator[ExampleRow]:
    for row in rows:
        yield ExampleRow(
            NOWHERE, tuple(ExampleCell(name, NOWHERE, value) for name, value in row.items())
        )


def _free_name(node: Transform, key: str) -> str:
    """A name that no test of the component has."""
    used_names = {test.name for test in node.component.tests}
    name = f"like {key}" if key else "like real rows"
    numbered = (f"{name} ({number})" for number in range(2, len(used_names) + 3))
    return (
        name
        if name not in used_names
        else next(free for free in numbered if free not in used_names)
    )

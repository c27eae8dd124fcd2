"""Columns that a blueprint names and no row will have, and output columns that come twice, as far
as columns are known.

It looks at texts as they are validated or applied. Stored blueprints were accepted under the rules
of their time, and are left alone. Columns are known where a read component declares them, and for
SQL over such columns, as far as its text determines them.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from controlplane.core import sql
from controlplane.core.blueprint import PythonTransform, SqlTransform
from controlplane.core.blueprint.problems import did_you_mean
from controlplane.core.blueprint.text_places import Position, TextPlace
from controlplane.core.compile.compiled_checks import CompiledCheck
from controlplane.core.compile.nodes import Node, Source, Transform
from controlplane.core.errors import Problem
from controlplane.core.partitioning import column_fault
from dataplane.contract.schemas import Schema

Names: TypeAlias = tuple[str, ...] | None  # of all columns; None where they are not known
_MOST_NAMED = 12
_GIVEN = frozenset({"params", "spark"})  # to every function, if it takes them


def problems(nodes: Mapping[str, Node], dataflows: Container[str]) -> Iterator[Problem]:
    """Problems of the compiled components of these dataflows."""
    tables = DatasetColumns(nodes)
    for dataset, node in nodes.items():
        if dataset.partition(".")[0] in dataflows and node.has_rows and not node.output:
            yield from _of(node, tables)


def _of(node: Source | Transform, tables: DatasetColumns) -> Iterator[Problem]:
    names = tables.of(node.dataset)
    if node.is_transform:
        yield from _twice(node, tables)
        yield from _unfit_keys(node, tables)
        yield from _untaken(node)
    if names is None:
        return
    look = ColumnWords(names, tables.is_case_sensitive(node))
    yield from look.at_checks(node.checks)
    yield from look.at_names(node.component.sort_by, node.component.sort_places)
    yield from look.at_names([part.column for part in node.key], [part.place for part in node.key])


@dataclass(slots=True)
class DatasetColumns:
    """The columns of datasets, each found once."""

    nodes: Mapping[str, Node]
    by_dataset: dict[str, Names] = field(default_factory=dict)
    selected: dict[str, sql.OutputColumns] = field(default_factory=dict)

    def of(self, dataset: str) -> Names:
        """Without recursion, since chains of datasets may be long."""
        waiting = [dataset]
        while waiting:
            node = self.nodes.get(waiting[-1])
            slots = node.slots if node is not None else ()
            lacking = [slot.dataset for slot in slots if slot.dataset not in self.by_dataset]
            if lacking:
                waiting += lacking
            else:
                self.by_dataset[waiting.pop()] = self._of(node)
        return self.by_dataset[dataset]

    def outputs(self, node: Transform) -> sql.OutputColumns | None:
        """The output columns of SQL, whose inputs are known by now."""
        if node.query is None or not node.query.parsed:
            return None
        if node.dataset not in self.selected:
            inputs = {
                slot.name: names
                for slot in node.slots
                if (names := self.by_dataset[slot.dataset]) is not None
            }
            if node.fold is not None:
                inputs[node.fold.name] = _names(node.fold.schema)
            columns = node.query.output_columns(inputs, case_sensitive=node.is_case_sensitive)
            self.selected[node.dataset] = columns
        return self.selected[node.dataset]

    def is_case_sensitive(self, node: Source | Transform) -> bool:
        return bool(node.spark["case_sensitive"])

    def _of(self, node: Node | None) -> Names:
        match node:
            case Source():
                return _names(node.with_metadata(node.declared)) if node.declared else None
            case Transform():
                return self._of_transform(node)
            case _:
                return None

    def _of_transform(self, node: Transform) -> Names:
        """Quarantined rows have the columns of the remaining rows, and the reason."""
        if node.fold is not None:
            return _names(node.fold.schema)
        outputs = None if node.output else self.outputs(node)
        return None if outputs is None else outputs.names


def _names(schema: Schema) -> tuple[str, ...]:
    return tuple(f["name"] for f in schema["fields"])


@dataclass(frozen=True, slots=True)
class ColumnWords:
    """Words that are to be columns of a dataset with these."""

    names: tuple[str, ...]
    case_sensitive: bool

    def at_names(
        self, words: Sequence[str], places: Sequence[Position | None]
    ) -> Iterator[Problem]:
        for word, place in zip(words, places, strict=False):
            if place is not None and not self._has(word):
                yield self._unknown(word, place)

    def at_checks(self, checks: Sequence[CompiledCheck]) -> Iterator[Problem]:
        for check in checks:
            yield from self.at_names(check.of.unique, check.of.unique_places)
            if check.predicate is not None:
                yield from self.at_condition(check.predicate, check.of.text)

    def at_condition(self, condition: sql.Predicate, text: TextPlace) -> Iterator[Problem]:
        """`text`: where the condition stands."""
        reported: set[str] = set()
        for word, line, column, is_all in condition.mentioned_columns():
            if word in reported or self._has(word) or not is_all:
                continue
            reported.add(word)
            yield self._unknown(word, text.at(line, column))

    def _has(self, word: str) -> bool:
        return word in self.names or (
            not self.case_sensitive and word.lower() in map(str.lower, self.names)
        )

    def _unknown(self, word: str, place: Position) -> Problem:
        there = ", ".join(self.names[:_MOST_NAMED]) + (
            ", ..." if len(self.names) > _MOST_NAMED else ""
        )
        hint = did_you_mean(word, self.names) or f"there is {there}"
        return place.problem("unknown-column", f"there is no column {word[:40]!r}", hint)


def _twice(node: Transform, tables: DatasetColumns) -> Iterator[Problem]:
    """Output columns of one name: no table can have both."""
    outputs = tables.outputs(node)
    if outputs is None or not isinstance(node.body, SqlTransform):
        return
    first_names: set[str] = set()
    reported: set[str] = set()
    for column in outputs.columns:
        name = column.name if node.is_case_sensitive else column.name.lower()
        if not name or name not in first_names:
            first_names.add(name)
            continue
        if name in reported:
            continue
        reported.add(name)
        place = node.body.text.at(column.line, column.column)
        hint = (
            "give it another name"
            if column.is_written
            else "name the columns that you want, in place of *"
        )
        yield place.problem(
            "duplicate-column", f"the output has two columns called {column.name[:40]!r}", hint
        )


def _unfit_keys(node: Transform, tables: DatasetColumns) -> Iterator[Problem]:
    """Keys of `cdc` of which no buckets are made, where the type is declared."""
    if not isinstance(node.body, SqlTransform) or node.body.is_written:
        return
    for slot in node.slots:
        source = tables.nodes.get(slot.dataset)
        if slot.mode != "by" or not isinstance(source, Source) or source.declared is None:
            continue
        schema = source.with_metadata(source.declared)
        for part, column in zip(node.key, slot.columns, strict=True):
            is_exact = node.is_case_sensitive
            fault = column_fault(schema, part, column, case_sensitive=is_exact)
            if fault is not None and part.place is not None:
                hint = "name a column of whole numbers, texts, dates or booleans first"
                yield part.place.problem("invalid-value", fault, hint)


def _untaken(node: Transform) -> Iterator[Problem]:
    """Inputs of Python that the function has no argument for: it would be called without them."""
    if node.bundle is None or not isinstance(node.body, PythonTransform):
        return
    free = [
        a
        for a in node.bundle.arguments
        if a not in _GIVEN and a not in {h.name for h in node.body.inputs}
    ]
    for hint in node.body.inputs:
        if hint.name not in node.bundle.arguments:
            message = f"the function has no argument {hint.name!r}"
            remedy = (
                did_you_mean(hint.name, free)
                or f"add it: def {node.body.entrypoint}({hint.name}, ...), or remove it"
            )
            yield hint.place.problem("unused-input", message, remedy)

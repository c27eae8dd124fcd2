"""The lineage of one component, with datasets in place of the names that its code has for inputs.

the analysis is remembered with its lineage   -> Spark's
SQL                                           -> sqlglot's, under the columns that inputs have
else                                          -> each column comes of all columns of all inputs, with a note
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Desired, Node, Sink, Source, Transform
from controlplane.core.model.memos import Memo, lineage_in
from controlplane.core.review.column_diff import as_ddl
from controlplane.core.review.node_schemas import Schemas
from controlplane.core.review.review_values import KnownFacts
from dataplane.contract.results import REASON
from dataplane.contract.schemas import Schema, column_names
from dataplane.contract.transform_lineage import (
    EVERY,
    ColumnLineage,
    InputField,
    Subtype,
    all_of_all,
)

Kind: TypeAlias = Literal["read", "sql", "python", "write"]
Origin: TypeAlias = Literal["spark", "sqlglot", "declared", "assumed"]
"""Who says so. `declared`: a read or write component has the columns of its place or of its
dataset."""

_UNANALYSED: Final = (
    "only Spark can tell, and has not analysed it: each column is said to come of all columns"
)
_READS_DATA: Final = (
    "its code looks at data: each column is said to come of all columns that it reads"
)
_REASON: Final = f"{REASON}: what a row failed may be any of its columns"


@dataclass(frozen=True, slots=True)
class Edge:
    """A column that is read, and the steps in which it takes part. `column`: EVERY where those of
    the dataset are not known."""

    dataset: str
    column: str
    steps: tuple[Subtype, ...]


@dataclass(frozen=True, slots=True)
class NodeLineage:
    """`rows`: what decides which rows there are, or in which order."""

    dataset: str
    kind: Kind
    by: Origin
    fields: Mapping[str, tuple[Edge, ...]]
    inputs: tuple[str, ...] = ()  # datasets
    rows: tuple[Edge, ...] = ()
    over_reported: tuple[str, ...] = ()

    def column(self, name: str) -> str | None:
        """As it is written, of a name in any case."""
        if name in self.fields:
            return name
        return next(
            (spelling for spelling in self.fields if spelling.lower() == name.lower()), None
        )


@dataclass(slots=True)
class Lineages:
    """Lineages of the components of some dataflows, each computed once."""

    desired: Desired
    facts: KnownFacts
    schemas: Schemas = field(init=False)
    _memos: Mapping[bytes, Memo] = field(default_factory=dict)
    _lineages: dict[str, NodeLineage] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.schemas = Schemas(self.desired, self.facts)

    def prepare(self, datasets: Iterable[str]) -> None:
        """Load the columns of these datasets and of all that they read, inputs first, and their
        remembered analyses."""
        needed = set(datasets)
        needed |= self.desired.graph.upstream(needed)
        in_order = [dataset for dataset in self.desired.order if dataset in needed]
        self.schemas.load(in_order)
        keys: list[bytes] = []
        for dataset in in_order:
            node = self.desired.nodes[dataset]
            if node.is_transform and (key := self._key(node)) is not None:
                keys.append(key)
        self._memos = self.facts.answers(tuple(keys)) if keys else {}

    def of(self, dataset: str) -> NodeLineage:
        """The lineage of a prepared dataset."""
        if dataset not in self._lineages:
            self._lineages[dataset] = self._of(self.desired.nodes[dataset])
        return self._lineages[dataset]

    def columns(self, dataset: str) -> tuple[str, ...]:
        """None of them where they are not known."""
        schema = self.schemas.of(dataset).schema
        return () if schema is None else column_names(schema)

    def _key(self, node: Transform) -> bytes | None:
        """The memo key of the analysis; None where the columns of an input are not known."""
        reads = {name: read.schema for name, read in self.schemas.reads(node).items()}
        schemas = {name: schema for name, schema in reads.items() if schema is not None}
        return ids.analysis_key(node.code_logic, schemas) if len(schemas) == len(reads) else None

    def _of(self, node: Node) -> NodeLineage:
        match node:
            case Source():
                return NodeLineage(
                    node.dataset, "read", "declared", dict.fromkeys(self.columns(node.dataset), ())
                )
            case Sink():
                columns = self.columns(node.source)
                copied = {name: (Edge(node.source, name, ("IDENTITY",)),) for name in columns}
                return NodeLineage(node.dataset, "write", "declared", copied, (node.source,))
            case Transform():
                return self._of_transform(node)

    def _of_transform(self, node: Transform) -> NodeLineage:
        reads = {name: read.schema for name, read in self.schemas.reads(node).items()}
        if node.fold is not None:
            reads[node.fold.name] = node.fold.schema
        columns = [
            name for name in self.columns(node.dataset) if not (node.output and name == REASON)
        ]
        by, analysis = self._analysis_of(node, reads, columns)
        datasets = {slot.name: slot.dataset for slot in node.slots}
        if node.fold is not None:
            datasets[node.fold.name] = node.dataset
        expand = _Expansion(datasets, reads)
        fields = {name: expand.edges(of["inputFields"]) for name, of in analysis["fields"].items()}
        notes = list(analysis["over_reported"])
        if node.output:
            fields[REASON] = expand.edges(
                all_of_all([REASON], reads, "")["fields"][REASON]["inputFields"]
            )
            notes.append(_REASON)
        kind: Kind = "python" if node.query is None else "sql"
        return NodeLineage(
            node.dataset,
            kind,
            by,
            fields=fields,
            inputs=tuple(dict.fromkeys(slot.dataset for slot in node.slots)),
            rows=_together([*expand.edges(analysis["dataset"]), *self._dropping(node, fields)]),
            over_reported=tuple(notes),
        )

    def _dropping(self, node: Transform, fields: Mapping[str, tuple[Edge, ...]]) -> Iterator[Edge]:
        """Columns that decide which rows an expectation takes out."""
        schema = self.schemas.of(node.dataset).schema
        if schema is None or node.output:
            return
        for check in node.checks:
            for name in column_names(check.read_schema(schema)) if check.is_drop else ():
                for edge in fields.get(name, ()):
                    yield Edge(edge.dataset, edge.column, ("FILTER",))

    def _analysis_of(
        self, node: Transform, reads: Mapping[str, Schema | None], columns: list[str]
    ) -> tuple[Origin, ColumnLineage]:
        key = self._key(node)
        memo = None if key is None else self._memos.get(key)
        if memo is not None and (remembered := lineage_in(memo)) is not None:
            return "spark", remembered
        if node.query is not None and node.query.parsed:
            inputs = {name: as_ddl(schema) for name, schema in reads.items() if schema is not None}
            resolved = node.query.lineage(inputs, columns) if len(inputs) == len(reads) else None
            if resolved is not None:
                return "sqlglot", resolved
        why = _READS_DATA if memo is not None and node.query is None else _UNANALYSED
        return "assumed", all_of_all(columns, reads, why)


@dataclass(frozen=True, slots=True)
class _Expansion:
    """From the code's name of an input to the dataset, and from all columns to each."""

    datasets: Mapping[str, str]
    reads: Mapping[str, Schema | None]

    def edges(self, fields: Iterable[InputField]) -> tuple[Edge, ...]:
        return _together(edge for input_field in fields for edge in self._edges(input_field))

    def _edges(self, input_field: InputField) -> Iterator[Edge]:
        dataset = self.datasets.get(input_field["name"])
        if dataset is None:  # a driver named no input of this component
            return
        steps = tuple(t["subtype"] for t in input_field["transformations"])
        for column in self._columns(input_field):
            yield Edge(dataset, column, steps)

    def _columns(self, input_field: InputField) -> tuple[str, ...]:
        schema = self.reads.get(input_field["name"])
        if input_field["field"] != EVERY or schema is None:
            return (input_field["field"],)
        return column_names(schema)


def _together(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Each column once, in order."""
    steps_of: dict[tuple[str, str], set[Subtype]] = {}
    for edge in edges:
        steps_of.setdefault((edge.dataset, edge.column), set()).update(edge.steps)
    return tuple(Edge(*origin, tuple(sorted(steps))) for origin, steps in sorted(steps_of.items()))

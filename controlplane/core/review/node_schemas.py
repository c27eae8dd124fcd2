"""The columns of each dataset of some nodes, as far as they are known before anything is computed.

a state of the same lineage     -> its schema, which Spark gave
  |
a source: pinned or declared    -> that, with the columns that are appended to it
  |
a transform: Spark analysed it  -> its answer is remembered
  | it did not: a request
the same code over the same     -> the schema of the state
  |
SQL                             -> the answer of sqlglot
  |
                                -> unknown
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from controlplane.core.compile import ids, key_types
from controlplane.core.compile.nodes import Desired, Source, Transform, settings_id
from controlplane.core.model.memos import Memo, schema_in
from controlplane.core.model.sources import Listing
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Task
from controlplane.core.plan.transform.transform_jobs import logic_job
from controlplane.core.review.column_diff import NOT_REPORTED, as_ddl, fold, from_ddl
from controlplane.core.review.review_values import (
    AnalyseRequest,
    KnownFacts,
    KnownSchema,
    SchemaOrigin,
)
from controlplane.core.schema.ddl_schemas import struct, types
from dataplane.contract.identity import schema_id
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema, Type
from dataplane.contract.source_objects import NESTED

ANALYSES_FIRST = 1_000  # the priority of questions that a person waits for


@dataclass(frozen=True, slots=True)
class _Analysis:
    """An analysis by Spark that gives the columns of a transform. `decided`: the node with the
    modes that follow from the columns of its inputs, which are all `exact`."""

    key: bytes
    node: Transform
    reads: Mapping[str, KnownSchema]
    decided: Transform
    exact: Mapping[str, Schema]


@dataclass(slots=True)
class Schemas:
    """The schemas of the nodes before an edit, or after it; then `earlier` are those before."""

    desired: Desired
    facts: KnownFacts
    earlier: Schemas | None = None
    unanswered: str = ""  # why Spark's answers are missing, where it got a request
    requests: dict[str, AnalyseRequest] = field(default_factory=dict)
    # What Spark says against a transform
    errors: dict[str, TaskError] = field(default_factory=dict)
    _schemas: dict[str, KnownSchema] = field(default_factory=dict)
    _missing: dict[str, str] = field(default_factory=dict)  # why there is no answer of Spark's

    def of(self, dataset: str) -> KnownSchema:
        if dataset not in self._schemas:
            self.load([dataset])
        return self._schemas[dataset]

    def load(self, datasets: Iterable[str]) -> None:
        """Look up the schemas of these datasets. Transforms that do not depend on each other share
        a look-up of Spark's answers."""
        for layer in self._layers(datasets):
            analyses: dict[str, _Analysis] = {}
            for dataset in layer:
                schema = self._schema_or_analysis(dataset)
                if isinstance(schema, _Analysis):
                    analyses[dataset] = schema
                else:
                    self._schemas[dataset] = schema
            if analyses:
                self._load_analysed(analyses)

    def reads(self, node: Transform) -> dict[str, KnownSchema]:
        """What each input is read with, by its name in the text."""
        by_slot: dict[str, KnownSchema] = {}
        for slot in node.slots:
            of = self.of(slot.dataset)
            schema = None if of.schema is None else node.read_schema(slot, of.schema)
            by_slot[slot.name] = KnownSchema(schema, of.origin, of.why)
        return by_slot

    def _layers(self, datasets: Iterable[str]) -> Iterator[list[str]]:
        """These, as far as they are not loaded, and the inputs that they need; inputs first."""
        needed: set[str] = set()
        waiting = list(datasets)
        while waiting:
            dataset = waiting.pop()
            if dataset not in self._schemas and dataset not in needed:
                needed.add(dataset)
                waiting += self._needed_inputs(dataset)
        return self.desired.layers(sorted(needed))

    def _needed_inputs(self, dataset: str) -> list[str]:
        """The inputs that its columns follow from; none where those are known without."""
        node = self.desired.nodes.get(dataset)
        if node is None or not node.is_transform or node.fold is not None:
            return []
        state = self.facts.state(dataset)
        is_known = state is not None and state.lineage == node.lineage
        return [] if is_known else [slot.dataset for slot in node.slots]

    def _schema_or_analysis(self, dataset: str) -> KnownSchema | _Analysis:
        """Where only Spark's answer is missing, the analysis that gives it."""
        node = self.desired.nodes.get(dataset)
        if node is None or node.is_copy:
            return KnownSchema(None, "unknown", "there is no such dataset")
        state = self.facts.state(dataset)
        if state is not None and state.lineage == node.lineage:
            return KnownSchema(state.schema, "spark")
        if node.is_source:
            return _of_source(self.facts, node, state)
        return self._of_transform(node, state)

    # --- transforms -------------------------------------------------------------------------------

    def _of_transform(self, node: Transform, state: State | None) -> KnownSchema | _Analysis:
        if node.fold is not None:
            return KnownSchema(node.with_reason(node.fold.schema), "declared")
        reads = self.reads(node)
        exact = {
            name: read.schema
            for name, read in reads.items()
            if read.is_exact and read.schema is not None
        }
        if len(exact) < len(reads):
            return self._by_sqlglot(node, reads)
        decided = key_types.decided(node, exact)
        if state is not None and _is_made_by(state, decided, exact):
            return KnownSchema(state.schema, "spark")
        key = ids.analysis_key(decided.code_logic, exact)
        return _Analysis(key, node, reads, decided, exact)

    def _load_analysed(self, analyses: Mapping[str, _Analysis]) -> None:
        """By Spark's answers, and by sqlglot where there are none."""
        keys = tuple(analysis.key for analysis in analyses.values())
        memos = self.facts.answers(keys)
        without = tuple(key for key in keys if key not in memos)
        tasks = self.facts.tasks(without) if without else {}
        for dataset, analysis in analyses.items():
            key = analysis.key
            by_spark = self._by_spark(analysis, memos.get(key), tasks.get(key))
            self._schemas[dataset] = by_spark or self._by_sqlglot(analysis.node, analysis.reads)

    def _by_spark(
        self, analysis: _Analysis, memo: Memo | None, task: Task | None
    ) -> KnownSchema | None:
        """Spark's answer if there is one; else the request for it is recorded."""
        node = analysis.decided
        if memo is not None:
            schema = node.with_reason(schema_in(memo))
            return KnownSchema(
                schema, "spark" if schema else "unknown", "" if schema else "its code looks at data"
            )
        if task is not None and task.error is not None and task.state == "failed":
            return self._failed(node, task.error)
        self.requests[node.dataset] = _analyse_request(node, analysis.key, analysis.exact)
        self._missing[node.dataset] = self.unanswered
        return None

    def _failed(self, node: Transform, error: TaskError) -> KnownSchema | None:
        """A fault of the code is reported with it; a fault elsewhere leaves the schema to
        sqlglot."""
        if error["kind"] == "user":
            self.errors[node.dataset] = error
            return KnownSchema(None, "unknown", "Spark refuses it")
        self._missing[node.dataset] = f"Spark could not analyse it: {first_line(error['message'])}"
        return None

    def _by_sqlglot(self, node: Transform, reads: Mapping[str, KnownSchema]) -> KnownSchema:
        why = self._missing.get(node.dataset, "") or _why_inexact(reads)
        if node.query is None:
            return _unknown("the columns of Python code are known once Spark has run it", why)
        for name, read in reads.items():
            if read.schema is None:
                return KnownSchema(
                    None, "unknown", f"the columns of {name} are not known: {read.why}"
                )
        inferred = _inferred(node, reads)
        if inferred is None:
            return _unknown("only Spark can tell the columns of this query", why)
        return KnownSchema(node.with_reason(self._corrected(node, inferred)), "sqlglot", why)

    def _corrected(self, node: Transform, inferred: Schema) -> Schema:
        """With the types that Spark gave before, for columns of which sqlglot says the same before
        and after."""
        before = self._before(node.dataset)
        if before is None:
            return inferred
        guessed, real = before
        corrected: list[tuple[str, Type]] = []
        for name, kind in types(inferred).items():
            key = fold(name, case_sensitive=False)
            is_same = key in real and guessed.get(key) == kind
            corrected.append(real[key] if is_same else (name, kind))
        return struct(corrected)

    def _before(self, dataset: str) -> tuple[dict[str, Type], dict[str, tuple[str, Type]]] | None:
        """sqlglot's answer for the query before the edit, and Spark's; both by folded name."""
        earlier = self.earlier
        node = earlier.desired.nodes.get(dataset) if earlier else None
        if earlier is None or node is None or node.query is None:
            return None
        present = earlier.of(dataset)
        guessed = _inferred(node, earlier.reads(node))
        if guessed is None or present.schema is None or present.origin != "spark":
            return None
        by_name = {fold(name, case_sensitive=False): kind for name, kind in types(guessed).items()}
        real = {
            fold(name, case_sensitive=False): (name, kind)
            for name, kind in types(present.schema).items()
        }
        return by_name, real


def _is_made_by(state: State, node: Transform, reads: Mapping[str, Schema]) -> bool:
    """The state was made by this code from inputs with these columns."""
    if state.logic != node.logic:
        return False
    for name, schema in reads.items():
        used = state.inputs.get(name)
        if used is None or used.schema != schema_id(schema):
            return False
    return True


def _why_inexact(reads: Mapping[str, KnownSchema]) -> str:
    """Why the output's columns are not Spark's: those of an input are not; empty otherwise."""
    return next((read.why for read in reads.values() if read.origin == "sqlglot" and read.why), "")


def _unknown(reason: str, why: str) -> KnownSchema:
    return KnownSchema(None, "unknown", f"{reason}; {why}" if why else reason)


def first_line(message: str) -> str:
    return next((line.strip() for line in message.splitlines() if line.strip()), "")


def _analyse_request(node: Transform, key: bytes, reads: Mapping[str, Schema]) -> AnalyseRequest:
    job = logic_job(node, reads)
    task = Task(key, "analyse", node.maker, "", ids.job_id(job), {}, priority=ANALYSES_FIRST)
    return AnalyseRequest(task, job)


def _inferred(node: Transform, reads: Mapping[str, KnownSchema]) -> Schema | None:
    """The schema of a query, by sqlglot."""
    assert node.query is not None
    inputs = {name: as_ddl(read.schema) for name, read in reads.items() if read.schema is not None}
    inferred = node.query.output_types(inputs)
    return None if inferred is None else from_ddl(dict(inferred))


# --- sources --------------------------------------------------------------------------------------


def _of_source(facts: KnownFacts, node: Source, state: State | None) -> KnownSchema:
    pinned = facts.pinned(node.maker)
    if pinned is not None and pinned.settings == settings_id(node):
        return KnownSchema(node.with_metadata(pinned.schema), "spark")
    if node.declared is None:
        return KnownSchema(None, "unknown", "its columns are inferred from data when it is read")
    appended = _appended(node, facts.listing(node.listing), state)
    columns = struct([*types(node.declared).items(), *appended.items()])
    origin: SchemaOrigin = "sqlglot" if appended else "declared"
    return KnownSchema(node.with_metadata(columns), origin)


def _appended(node: Source, listing: Listing | None, state: State | None) -> dict[str, Type]:
    """Columns that the objects have and the declared schema lacks, which reading appends. Their
    types are those that they had; else they are not known before they are read."""
    if listing is None or node.read.schema_change == "fail" or node.positional:
        return {}
    declared = types(node.declared or struct(()))
    had = types(state.schema) if state is not None else {}
    appended: dict[str, Type] = {}
    for columns in listing.columns:
        for name in columns or ():
            if name not in declared and NESTED not in name:
                appended[name] = had.get(name, NOT_REPORTED)
    return appended

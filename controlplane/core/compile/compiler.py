"""From accepted texts to nodes that can be planned: names are resolved, then modes decided, then
logic identified."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import assert_never

from controlplane.core import sql
from controlplane.core.blueprint import (
    QUARANTINE,
    Draft,
    PythonTransform,
    Read,
    SqlTransform,
    Write,
)
from controlplane.core.blueprint.text_forms import name as name_fault
from controlplane.core.compile import (
    column_problems,
    compiled_checks,
    component_modes,
    connector_identity,
    dependency_graph,
    freshness_goals,
    late_rules,
    name_lookup,
    node_identity,
)
from controlplane.core.compile.compiled_checks import CompiledCheck
from controlplane.core.compile.component_modes import ComponentInputs, Modes
from controlplane.core.compile.dependency_graph import Graph
from controlplane.core.compile.final_rules import FinalRules
from controlplane.core.compile.node_identity import NamedComponent
from controlplane.core.compile.nodes import (
    NOTHING,
    Desired,
    Node,
    NodeText,
    Sink,
    Source,
    Transform,
)
from controlplane.core.compile.periods import zone_fault
from controlplane.core.errors import InvalidBlueprint, Problem
from controlplane.core.model.revisions import Revision
from controlplane.core.schema.ddl_schemas import InvalidSchema, parse_ddl
from dataplane.contract.results import QUARANTINED
from dataplane.contract.schemas import EVENT_TIME_TYPES, Schema, field_types


@dataclass(frozen=True, slots=True)
class Compilation:
    """What a set of dataflows asks for, as far as it compiles, and every problem. Components with
    one are left out, and so are those that read them."""

    desired: Desired
    problems: tuple[Problem, ...]

    def require(self) -> Desired:
        """Raises InvalidBlueprint with every problem."""
        if self.problems:
            raise InvalidBlueprint(self.problems)
        return self.desired


def compile_revisions(
    revisions: Iterable[Revision],
    *,
    namespace: str = "default",
    semantics: int = 1,
    before: Desired | None = None,
    parsed: Mapping[str, Draft] = MappingProxyType({}),
) -> Compilation:
    """Compile a set of dataflows that may refer to each other, as much as can be: a problem that is
    found early hides none of other components.

    `before` was compiled with the same namespace and semantics: unchanged parts are taken from it.
    `parsed` holds drafts of revisions that were parsed already, by dataflow.
    """
    before = before or NOTHING
    problems: list[Problem] = []
    by_flow: dict[str, NodeText] = {}
    unreadable: set[str] = set()
    for revision in revisions:
        text = _unchanged_text(before, revision) or name_lookup.read(
            revision, parsed.get(revision.dataflow), problems
        )
        if text is None:
            unreadable.add(revision.dataflow)
        else:
            by_flow.setdefault(text.blueprint.dataflow, text)
    doubtful = _Doubtful.of(by_flow, frozenset(unreadable))
    blueprints = [text.blueprint for text in by_flow.values()]
    linked, unlinked = dependency_graph.link(
        blueprints,
        lambda b, c: name_lookup.references(by_flow[b.dataflow], c),
        doubtful,
        doubtful.datasets,
    )
    problems.extend(unlinked)
    nodes: dict[str, Node] = {}
    for dataset in (*linked.order, *linked.circular):
        blueprint, component = linked.component(dataset)
        text = by_flow[blueprint.dataflow]
        if _is_kept(before, dataset, text, linked, nodes):
            nodes[dataset] = before.nodes[dataset]
        elif dataset.endswith(QUARANTINE):  # its maker's name comes first among equals
            nodes |= _quarantine(dataset, nodes.get(dataset.removesuffix(QUARANTINE)))
        else:
            step = _Step(
                NamedComponent(dataset, component, text, namespace, semantics),
                linked.inputs(dataset),
                nodes,
                problems,
            )
            node = step.compile()
            if node is not None:
                nodes[dataset] = node
    nodes = freshness_goals.applied(nodes, linked)
    problems.extend(column_problems.problems(nodes, parsed.keys()))
    depths = {} if problems else _depths(linked)
    late = tuple(
        d for d in linked.order if (node := nodes.get(d)) and node.is_transform and node.by_key
    )
    return Compilation(
        Desired(nodes, linked.order, linked, depths, by_flow, undecided=late),
        tuple(sorted(set(problems))),
    )


@dataclass(frozen=True, slots=True)
class _Doubtful(Container[str]):
    """Datasets that unreadable text declares, or may declare: their readers are not at fault."""

    datasets: frozenset[str]
    unreadable: frozenset[str]  # dataflows
    dataflows: frozenset[str]  # all of them
    are_named: bool  # else one may have any other name

    @staticmethod
    def of(texts: Mapping[str, NodeText], unreadable: frozenset[str]) -> _Doubtful:
        unsound = {
            f"{flow}.{name.lower()}" for flow, text in texts.items() for name in text.unsound
        }
        quarantines = {dataset + QUARANTINE for dataset in unsound}
        flows = texts.keys() | unreadable
        is_named = all(name_fault(flow.partition("#")[0]) is None for flow in flows)
        return _Doubtful(frozenset(unsound | quarantines), unreadable, frozenset(flows), is_named)

    def __contains__(self, dataset: object) -> bool:
        flow = str(dataset).partition(".")[0]
        may_be_nameless = not self.are_named and flow not in self.dataflows
        return dataset in self.datasets or flow in self.unreadable or may_be_nameless


def _unchanged_text(before: Desired, revision: Revision) -> NodeText | None:
    """The text as it was read before."""
    text = before.texts.get(revision.dataflow)
    return (
        text
        if text is not None and _compiled_from(text.revision) == _compiled_from(revision)
        else None
    )


def _compiled_from(revision: Revision) -> tuple[object, ...]:
    """All of a revision that nodes are made from."""
    return revision.number, revision.file, revision.text, dict(revision.files), dict(revision.uids)


def _is_kept(
    before: Desired, dataset: str, text: NodeText, linked: Graph, nodes: Mapping[str, Node]
) -> bool:
    """Whether its text and everything upstream are the same as they were."""
    if before.texts.get(text.blueprint.dataflow) is not text:
        return False
    inputs = linked.inputs(dataset)
    return before.graph.inputs(dataset) == inputs and all(
        nodes.get(i) is before.nodes[i] for i in inputs.values()
    )


def _quarantine(dataset: str, maker: Node | None) -> dict[str, Node]:
    """The dataset of rows that are taken out of another one: the second output of the same
    tasks."""
    if maker is None or maker.is_copy:
        return {}
    logic, lineage = (
        compiled_checks.quarantine_logic(maker.logic),
        compiled_checks.quarantine_logic(maker.lineage),
    )
    checks = tuple(c for c in maker.checks if c.is_drop)
    twin = replace(
        maker, dataset=dataset, logic=logic, lineage=lineage, checks=checks, output=QUARANTINED
    )
    return {dataset: replace(twin, work=maker.logic) if twin.is_transform else twin}


def _depths(linked: Graph) -> dict[str, int]:
    depths: dict[str, int] = {}
    for dataset in linked.order:
        depths[dataset] = 1 + max((depths[i] for i in linked.inputs(dataset).values()), default=-1)
    return depths


@dataclass(frozen=True, slots=True)
class _Step:
    """One component on its way from its text to a node. Problems are added to those of the whole
    set."""

    named: NamedComponent
    datasets: Mapping[str, str]  # what it reads, by the names that it has for it
    nodes: Mapping[str, Node]  # compiled so far; inputs come first
    problems: list[Problem]

    def compile(self) -> Node | None:
        """None where it, or one of its inputs, has a problem."""
        count = len(self.problems)
        node = self._compiled()
        self.problems[count:] = [
            name_lookup.of_use(self.named.component, problem) for problem in self.problems[count:]
        ]
        return node

    def _compiled(self) -> Node | None:
        if self.named.component.name in self.named.text.unsound:
            self._checks()  # modes may be wrong where inputs could not be read
            return None
        match self.named.component.body:
            case Read() as read:
                return self._source(read)
            case Write() as write:
                return self._sink(write)
            case SqlTransform() as body:
                return self._sql(body)
            case PythonTransform() as body:
                return self._python(body)
            case other:
                assert_never(other)

    def _source(self, read: Read) -> Source | None:
        location = self._located(read.path) if connector_identity.is_path(read) else read.path
        declared = self._declared(read)
        has_times = self._has_event_time(read, declared)
        checks = self._checks() if location is not None else ()
        self.problems.extend(late_rules.problems(self.named.component, (), {}))
        self._refuse_zone(None)
        return (
            None
            if location is None or not has_times
            else node_identity.source(self.named, read, location, declared, checks)
        )

    def _sink(self, write: Write) -> Sink | None:
        path = self._located(write.path) if connector_identity.is_path(write) else write.path
        source = next(iter(self.datasets.values()), None)
        if path is None or source is None:
            return None
        return node_identity.sink(self.named, write, path, source, self.nodes)

    def _sql(self, body: SqlTransform) -> Transform | None:
        component, query = (
            self.named.component,
            self.named.text.queries.get(self.named.component.name),
        )
        checks = self._checks()
        if query is None:
            return None
        chosen = component_modes.of_sql(component, body, query, self._inputs())
        self._refuse_zone(query)
        if not self._is_sound(body, chosen, checks):
            return None
        return node_identity.transform(self.named, body, query, chosen, checks, self.nodes)

    def _python(self, body: PythonTransform) -> Transform | None:
        component, bundle = (
            self.named.component,
            self.named.text.bundles.get(self.named.component.name),
        )
        checks = self._checks()
        if bundle is None:
            return None
        chosen = component_modes.of_python(component, body, bundle, self._inputs())
        self._refuse_zone(None)
        if not self._is_sound(body, chosen, checks):
            return None
        return node_identity.transform(self.named, body, bundle, chosen, checks, self.nodes)

    def _inputs(self) -> ComponentInputs:
        named = self.named
        is_exact = bool(named.spark["case_sensitive"])
        return ComponentInputs(self.datasets, self.nodes, is_exact, named.timezone)

    def _is_sound(
        self, body: SqlTransform | PythonTransform, chosen: Modes, checks: tuple[CompiledCheck, ...]
    ) -> bool:
        """Adds problems. Whether all that it reads was compiled."""
        self.problems.extend(chosen.problems)
        slots = chosen.by_key or chosen.slots
        zone, place = self.named.timezone, self.named.component.place
        self.problems.extend(FinalRules(body, slots, self.nodes, zone, place).problems())
        self.problems.extend(late_rules.problems(self.named.component, chosen.slots, self.nodes))
        if self.named.component.max_recompute:
            from controlplane.core.compile import read_limits

            self.problems.extend(read_limits.problems(self.named.component, body, chosen.slots))
        is_read_by_key = any(slot.mode == "by" for slot in chosen.slots)
        if body.partition_by and not is_read_by_key:
            self.problems.extend(compiled_checks.not_quarantined(checks))
        return all(slot.dataset in self.nodes for slot in chosen.slots)

    def _checks(self) -> tuple[CompiledCheck, ...]:
        named = self.named
        return compiled_checks.compiled(
            named.component, named.spark, named.semantics, self.problems
        )

    def _declared(self, read: Read) -> Schema | None:
        try:
            return parse_ddl(read.schema) if read.schema else None
        except InvalidSchema as e:
            self._refuse(e.code, str(e), "for example: year INT, name STRING")
            return None

    def _has_event_time(self, read: Read, declared: Schema | None) -> bool:
        """Whether the column of its event time is a time, if it has one. Adds a problem."""
        if read.event_time is None or declared is None:
            return True
        column = read.event_time.column
        if field_types(declared).get(column) in EVENT_TIME_TYPES:
            return True
        message = f"event_time: {column!r} is no column of type TIMESTAMP or TIMESTAMP_NTZ"
        self._refuse("invalid-value", message, "name a column of the schema, or _timestamp")
        return False

    def _located(self, path: str) -> str | None:
        location = name_lookup.absolute(path, self.named.text.revision.file)
        if location is None:
            hint = "write an absolute path, or send the blueprint with its own absolute file name"
            self._refuse(
                "relative-path", f"{path!r} is relative to nothing that the server knows", hint
            )
        return location

    def _refuse_zone(self, query: sql.AnalysedQuery | None) -> None:
        if fault := zone_fault(self.named.component, query, self.named.timezone):
            self._refuse("invalid-value", fault, "for example UTC, Europe/Berlin or +02:00")

    def _refuse(self, code: str, message: str, hint: str) -> None:
        self.problems.append(self.named.component.place.problem(code, message, hint))

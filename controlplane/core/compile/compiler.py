"""From accepted texts to nodes that can be planned: references resolved, modes decided, logic identified.

Does not belong here: the nodes (dataflow), states and data (plan), reading YAML (blueprint).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from controlplane.core import sql
from controlplane.core.blueprint import (
    QUARANTINE,
    Blueprint,
    Component,
    PythonTransform,
    Read,
    SqlTransform,
    Write,
    parse,
)
from controlplane.core.compile import checks as expectations
from controlplane.core.compile import connectors, graph, ids
from controlplane.core.compile import fold as folding
from controlplane.core.compile.checks import Check
from controlplane.core.compile.fold import Fold
from controlplane.core.compile.graph import Graph, Reference
from controlplane.core.compile.nodes import NOTHING, Desired, Node, NodeText, Sink, Slot, Source, Transform
from controlplane.core.compile.periods import zone_fault
from controlplane.core.errors import InvalidBlueprint, Problem
from controlplane.core.model.revisions import Revision
from controlplane.core.partitioning import named
from controlplane.core.python import code
from controlplane.core.schema.schemas import InvalidSchema, parse_ddl
from dataplane.contract import QUARANTINED, Json


def compile_revisions(
    revisions: Iterable[Revision],
    *,
    namespace: str = "default",
    semantics: int = 1,
    before: Desired | None = None,
    parsed: Mapping[str, Blueprint] = MappingProxyType({}),
) -> Desired:
    """Compile a set of dataflows that may refer to each other. Raises InvalidBlueprint with every problem.

    `before` was compiled with the same namespace and semantics: what is as it was then is taken from there. `parsed`
    holds blueprints of revisions that were parsed already, by dataflow.
    """
    before = before or NOTHING
    problems: list[Problem] = []
    texts = [t for r in revisions if (t := _kept(before, r) or _read(r, parsed.get(r.dataflow), problems))]
    if problems:
        raise InvalidBlueprint(tuple(sorted(problems)))
    by_flow = {t.blueprint.dataflow: t for t in texts}
    found = graph.build([t.blueprint for t in texts], lambda b, c: _references(by_flow[b.dataflow], c))
    nodes: dict[str, Node] = {}
    for dataset in found.order:
        blueprint, component = found.component(dataset)
        text = by_flow[blueprint.dataflow]
        if _is_kept(before, dataset, text, found, nodes):
            nodes[dataset] = before.nodes[dataset]
        elif dataset.endswith(QUARANTINE):  # its maker's name comes first among equals
            nodes |= _quarantine(dataset, nodes.get(dataset.removesuffix(QUARANTINE)))
        else:
            _Compiler(text, found, nodes, namespace, semantics, problems).compile(dataset, component)
    if problems:
        raise InvalidBlueprint(tuple(sorted(problems)))
    return Desired(nodes, found.order, found, _depths(found), by_flow)


def _kept(before: Desired, revision: Revision) -> NodeText | None:
    """The text as it was read before."""
    text = before.texts.get(revision.dataflow)
    return text if text is not None and _compiled_from(text.revision) == _compiled_from(revision) else None


def _compiled_from(revision: Revision) -> tuple[object, ...]:
    """All of a revision that nodes are made from."""
    return revision.number, revision.file, revision.text, dict(revision.files), dict(revision.uids)


def _is_kept(before: Desired, dataset: str, text: NodeText, found: Graph, nodes: Mapping[str, Node]) -> bool:
    """Whether its text and everything upstream are the same as they were."""
    if before.texts.get(text.blueprint.dataflow) is not text:
        return False
    inputs = found.inputs(dataset)
    return before.graph.inputs(dataset) == inputs and all(nodes.get(i) is before.nodes[i] for i in inputs.values())


def _quarantine(dataset: str, maker: Node | None) -> dict[str, Node]:
    """The dataset of rows that are taken out of another one: the second output of the same tasks."""
    if not isinstance(maker, Source | Transform):
        return {}
    logic, lineage = expectations.quarantine_logic(maker.logic), expectations.quarantine_logic(maker.lineage)
    checks = tuple(c for c in maker.checks if c.is_drop)
    twin = replace(maker, dataset=dataset, logic=logic, lineage=lineage, checks=checks, output=QUARANTINED)
    return {dataset: replace(twin, work=maker.logic) if isinstance(twin, Transform) else twin}


def _depths(found: Graph) -> dict[str, int]:
    depths: dict[str, int] = {}
    for dataset in found.order:
        depths[dataset] = 1 + max((depths[i] for i in found.inputs(dataset).values()), default=-1)
    return depths


def _read(revision: Revision, parsed: Blueprint | None, problems: list[Problem]) -> NodeText | None:
    try:
        blueprint = parsed or parse(revision.text, file=revision.file, files=revision.files)
    except InvalidBlueprint as e:
        problems.extend(e.problems)
        return None
    queries: dict[str, sql.Query] = {}
    bundles: dict[str, code.Bundle] = {}
    for component in blueprint.components:
        try:
            match component.body:
                case SqlTransform(sql=text):
                    queries[component.name] = sql.analyse(text)
                case PythonTransform() as body:
                    bundles[component.name] = code.analyse(
                        dict(body.modules), body.main, body.entrypoint, body.requirements, is_inline=body.is_inline
                    )
                case _:
                    pass
        except sql.SqlProblem as e:
            problems.append(_located(component, e.code, e.message, e.line, e.column, e.hint))
        except code.CodeProblem as e:
            problems.append(_located(component, e.code, e.message, e.line, e.column, e.hint, file=e.file))
    return NodeText(blueprint, revision, queries, bundles)


def _located(
    component: Component, code: str, message: str, line: int, column: int, hint: str, file: str | None = None
) -> Problem:
    body = component.body
    if isinstance(body, PythonTransform) and file not in (None, body.main):
        return Problem(str(file), line, column, code, message, hint)
    place = body.text.at(line, column) if isinstance(body, SqlTransform | PythonTransform) else component.place
    return Problem(place.file, place.line, place.column, code, message, hint)


def _hints(component: Component) -> dict[str, str]:
    """Slot name -> dataset, where a hint names another one."""
    body = component.body
    if not isinstance(body, SqlTransform | PythonTransform):
        return {}
    return {h.name: h.dataset for h in body.inputs if h.dataset}


def _references(text: NodeText, component: Component) -> tuple[Reference, ...]:
    renamed = _hints(component)
    match component.body:
        case SqlTransform() as body:
            query = text.queries[component.name]
            names = {".".join(r.parts): (r.line, r.column) for r in reversed(query.references)}
            names.pop(folding.name_of(component), None)
            return tuple(Reference(renamed.get(n, n), body.text.at(*at)) for n, at in names.items())
        case PythonTransform() as body:
            return tuple(Reference(renamed.get(h.name, h.name), h.place) for h in body.inputs)
        case Write(source=source):
            return (Reference(source, component.place),)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class _Compiler:
    text: NodeText
    graph: Graph
    nodes: dict[str, Node]  # compiled so far; inputs come first
    namespace: str
    semantics: int
    problems: list[Problem]

    def compile(self, dataset: str, component: Component) -> None:
        match component.body:
            case Read() as read:
                node: Node | None = self._source(dataset, component, read)
            case Write() as write:
                node = self._sink(dataset, component, write)
            case SqlTransform() | PythonTransform() as body:
                node = self._transform(dataset, component, body)
        if node is not None:
            self.nodes[dataset] = node

    def _uid(self, component: Component) -> str:
        return self.text.revision.uids.get(component.name, component.name)

    def _absolute(self, component: Component, path: str) -> str | None:
        if "://" in path or path.startswith("/"):
            return path
        folder = posixpath.dirname(self.text.revision.file)
        if folder.startswith("/"):
            return posixpath.normpath(posixpath.join(folder, path))
        hint = "write an absolute path, or send the blueprint with its own absolute file name"
        self._problem(component, "relative-path", f"{path!r} is relative to nothing that the server knows", hint)
        return None

    def _problem(self, component: Component, code: str, message: str, hint: str = "") -> None:
        at = component.place
        self.problems.append(Problem(at.file, at.line, at.column, code, message, hint))

    def _source(self, dataset: str, component: Component, read: Read) -> Source | None:
        location = self._absolute(component, read.path) if connectors.is_path(read) else read.path
        declared = None
        try:
            declared = parse_ddl(read.schema) if read.schema else None
        except InvalidSchema as e:
            self._problem(component, e.code, str(e), "for example: year INT, name STRING")
        if location is None:
            return None
        options, timezone = connectors.logic_options(read), self.text.blueprint.timezone
        parse = ids.parse_logic(
            read.format, options, tuple(read.metadata), read.on_bad_record, timezone, self.semantics
        )
        checks = self._expectations(component)
        reading = ids.read_logic(parse, declared, read.schema_change)
        parse = expectations.filtered_logic(parse, checks)
        logic = ids.read_logic(parse, declared, read.schema_change)
        listing = connectors.listing_id(read, location)
        return Source(
            dataset,
            self._uid(component),
            component,
            read,
            self.text.revision.number,
            location,
            listing,
            parse,
            logic,
            ids.lineage_id(logic, {"": listing}),
            declared,
            timezone,
            self._spark,
            reading,
            checks,
        )

    @property
    def _spark(self) -> dict[str, Json]:
        settings = self.text.blueprint
        return {
            "ansi": settings.spark.ansi,
            "case_sensitive": settings.spark.case_sensitive,
            "timezone": settings.timezone,
        }

    def _expectations(self, component: Component) -> tuple[Check, ...]:
        return expectations.compiled(component, self._spark, self.semantics, self.problems)

    def _sink(self, dataset: str, component: Component, write: Write) -> Sink | None:
        path = self._absolute(component, write.path) if connectors.is_path(write) else write.path
        (source,) = self.graph.inputs(dataset).values()
        if path is None:
            return None
        uid = self._uid(component)
        maker = self.nodes.get(source)
        keyed = connectors.key_columns(maker.key) if isinstance(maker, Transform) else ()
        identity = connectors.target_id(self.namespace, dataset, uid, write, path, keyed)
        return Sink(dataset, uid, component, write, self.text.revision.number, source, path, identity, keyed)

    def _transform(self, dataset: str, component: Component, body: SqlTransform | PythonTransform) -> Transform | None:
        query, bundle = self.text.queries.get(component.name), self.text.bundles.get(component.name)
        spark, checks = self._spark, self._expectations(component)
        slots = self._sql_slots(dataset, component, query) if query else self._python_slots(dataset, component)
        self._check(component, body, query, bundle)
        fold = self._fold(component, body, slots, query)
        self._check_modes(component, body, slots)
        if body.partition_by and not any(s.mode == "by" for s in slots):
            self.problems.extend(expectations.not_quarantined(checks))
        if any(s.dataset not in self.nodes for s in slots):
            return None
        logic = ids.transform_logic(
            "sql" if query else "python",
            query.digest if query else bundle.digest if bundle else b"",
            dict(body.params),
            {s.name: s.mode for s in slots} | ({fold.name: folding.MODE} if fold else {}),
            spark,
            self.semantics,
            "" if isinstance(body, SqlTransform) else body.entrypoint,
            keyed=_keyed(body, slots),
            requirements=() if isinstance(body, SqlTransform) else body.requirements,
            fold=fold.logic if fold else None,
        )
        logic = expectations.filtered_logic(logic, checks)
        is_volatile = bool(component.volatile or (query.volatile if query else bundle.volatile if bundle else ()))
        if fault := zone_fault(component, query, spark["timezone"]):
            self._problem(component, "invalid-value", fault, "for example UTC, Europe/Berlin or +02:00")
        if is_volatile:
            logic = ids.volatile_logic(logic, self._uid(component))
        own, logic = logic, bytes.fromhex(component.pin) or logic
        upstream = {s.name: _lineage(self.nodes[s.dataset]) for s in slots}
        return Transform(
            dataset,
            self._uid(component),
            component,
            body,
            self.text.revision.number,
            logic,
            ids.lineage_id(logic, upstream),
            slots,
            spark,
            query,
            bundle,
            is_volatile,
            checks,
            semantics=self.semantics,
            own=b"" if own == logic else own,
            fold=fold,
        )

    def _fold(
        self,
        component: Component,
        body: SqlTransform | PythonTransform,
        slots: tuple[Slot, ...],
        query: sql.Query | None,
    ) -> Fold | None:
        if body.previous is None:
            return None
        read = None if query is None else {".".join(r.parts) for r in query.references}
        found, problems = folding.fold(component, body.previous, ((s.name, s.mode) for s in slots), read)
        self.problems.extend(problems)
        return found

    def _check(
        self,
        component: Component,
        body: SqlTransform | PythonTransform,
        query: sql.Query | None,
        bundle: code.Bundle | None,
    ) -> None:
        params = dict(body.params)
        if query is not None:
            for name in sorted(query.parameters - params.keys()):
                self._problem(
                    component, "missing-parameter", f"the SQL uses :{name}", f"add it below params of {component.name}"
                )
        if bundle is not None:
            given = {h.name for h in body.inputs} | {"params", "spark", folding.name_of(component)}
            for name in bundle.arguments:
                if name not in given:
                    self._problem(component, "missing-input", f"the function takes {name!r}", "name it under inputs")

    def _check_modes(self, component: Component, body: SqlTransform | PythonTransform, slots: tuple[Slot, ...]) -> None:
        modes = {s.mode: s.name for s in slots}
        if "by" in modes and not body.partition_by and body.previous is None:
            message = f"{modes['by']} is read `by` a key, and no key is given"
            self._problem(component, "missing-key", message, "name the columns of the key: partition_by: [...]")
        if "by" in modes and "each" in modes:
            message = f"{modes['each']} is read `each`, and {modes['by']} `by` a key"
            self._problem(component, "conflicting-keys", message, "read one of them `all`, or both `by` the key")
        if body.partition_by and "each" in modes and "by" not in modes:
            message = f"{modes['each']} is read `each`: its partitions are those of the output"
            self._problem(
                component, "conflicting-keys", message, "read it `by` the key or `all`, or remove partition_by"
            )

    def _sql_slots(self, dataset: str, component: Component, query: sql.Query) -> tuple[Slot, ...]:
        assert isinstance(component.body, SqlTransform)
        hints = {h.name: h for h in component.body.inputs}
        inputs, renamed = self.graph.inputs(dataset), _hints(component)
        body, declared = component.body, {n: h.mode for n, h in hints.items() if h.mode}
        parts = [sql.KeyPart(k.column, k.granule or f"bucket {k.buckets}" * bool(k.buckets)) for k in body.partition_by]
        found = query.verdicts(parts, case_sensitive=self.text.blueprint.spark.case_sensitive)
        found = {name: verdict for name, verdict in found.items() if name != folding.name_of(component)}
        keyed = {} if declared else self._by_key(found, {n: inputs[renamed.get(n, n)] for n in found})
        modes = _declared({name: verdict.planned for name, verdict in found.items()}, declared)
        slots = [
            Slot(name, inputs[renamed.get(name, name)], "by", found[name].reason, keyed[name], is_proven=True)
            if name in keyed
            else Slot(name, inputs[renamed.get(name, name)], mode, reason, _columns(body, mode))
            for name, mode, reason in modes
        ]
        for hint in hints.values():
            if hint.name not in {s.name for s in slots}:
                place = hint.place
                message = f"the SQL does not read {hint.name!r}"
                self.problems.append(
                    Problem(place.file, place.line, place.column, "unused-input", message, "remove it")
                )
        return tuple(slots)

    def _by_key(self, found: Mapping[str, sql.Verdict], inputs: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """The columns of the key in inputs that are proven to be read by it. Of several, only if these have the same
        declared types: else a key might have another text in each."""
        by = {n: tuple(k.column for k in verdict.keys) for n, verdict in found.items() if verdict.mode == "by"}
        if not all(all(columns) for columns in by.values()):
            return {}
        types = {tuple(self._type(inputs[n], column) for column in columns) for n, columns in by.items()}
        return by if len(by) == 1 or (len(types) == 1 and None not in next(iter(types))) else {}

    def _type(self, dataset: str, column: str) -> str | None:
        """As a read component declares it; None where that is not known before its data is."""
        node = self.nodes.get(dataset)
        if not isinstance(node, Source) or node.declared is None:
            return None
        name = named(node.declared, column, case_sensitive=self.text.blueprint.spark.case_sensitive)
        return next((str(f["type"]) for f in node.declared["fields"] if f["name"] == name), None)

    def _python_slots(self, dataset: str, component: Component) -> tuple[Slot, ...]:
        assert isinstance(component.body, PythonTransform)
        inputs, renamed = self.graph.inputs(dataset), _hints(component)
        chosen = [(h, h.mode or "all") for h in component.body.inputs]
        return tuple(
            Slot(h.name, inputs[renamed.get(h.name, h.name)], mode, f"declared {mode}", _columns(component.body, mode))
            for h, mode in chosen
        )


def _declared(inferred: Mapping[str, sql.Mode], hints: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Name, mode and reason. Inputs are proven `each` together: where one is declared otherwise, none of them is."""
    other = [n for n, m in inferred.items() if m.mode == "each" and hints.get(n, "each") != "each"]
    for name, found in inferred.items():
        hint = hints.get(name)
        if hint is not None and hint != found.mode:
            yield name, hint, f"declared {hint}; inferred {found.reason}"
        elif hint is None and found.mode == "each" and other:
            yield name, "all", f"`all`: {other[0]} is declared `{hints[other[0]]}`; inferred {found.reason}"
        else:
            yield name, found.mode, found.reason


def _columns(body: SqlTransform | PythonTransform, mode: str) -> tuple[str, ...]:
    """A declared `by` input has the columns of the output's key under the same names."""
    return tuple(part.column for part in body.partition_by) if mode == "by" else ()


def _keyed(body: SqlTransform | PythonTransform, slots: tuple[Slot, ...]) -> Json:
    """How rows are told apart by keys, as part of the logic; None where they are not."""
    if not body.partition_by:
        return None
    parts = [[part.column, part.granule, part.buckets] for part in body.partition_by]
    return {"parts": parts, "columns": {s.name: list(s.columns) for s in slots if s.columns}}


def _lineage(node: Node) -> bytes:
    return b"" if isinstance(node, Sink) else node.lineage

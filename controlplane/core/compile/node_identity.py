"""Third step of compiling: nodes with their identities. `logic` covers all that decides which rows
come out.

Nothing is refused here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from controlplane.core import sql
from controlplane.core.blueprint import Component, PythonTransform, Read, SqlTransform, Write
from controlplane.core.compile import compiled_checks, connector_identity, ids, ordered_fold
from controlplane.core.compile.compiled_checks import CompiledCheck
from controlplane.core.compile.component_modes import Modes
from controlplane.core.compile.nodes import ByKey, Node, NodeText, Sink, Slot, Source, Transform
from controlplane.core.python import code, libraries
from dataplane.contract.jobs import JobSparkSettings, Mode
from dataplane.contract.schemas import Schema


@dataclass(frozen=True, slots=True)
class NamedComponent:
    """A component with the names that it goes by, and what all components of its dataflow share."""

    dataset: str
    component: Component
    text: NodeText
    namespace: str
    semantics: int

    @property
    def uid(self) -> str:
        """Stays as it is when a component is edited, and is another one for one that comes back
        under its name."""
        return self.text.revision.uids.get(self.component.name, self.component.name)

    @property
    def revision(self) -> int:
        return self.text.revision.number

    @property
    def timezone(self) -> str:
        return self.text.blueprint.timezone

    @property
    def spark(self) -> JobSparkSettings:
        """Settings of Spark that decide about rows."""
        spark = self.text.blueprint.spark
        return {
            "ansi": spark.ansi,
            "case_sensitive": spark.case_sensitive,
            "timezone": self.timezone,
        }


def source(
    named: NamedComponent,
    read: Read,
    location: str,
    declared: Schema | None,
    checks: tuple[CompiledCheck, ...],
) -> Source:
    read = connector_identity.with_defaults(read, named.uid)
    options, folders = (
        connector_identity.logic_options(read),
        connector_identity.reads_folders(read),
    )
    parse_logic = partial(
        ids.parse_logic,
        format=read.format,
        options=options,
        metadata=tuple(read.metadata),
        on_bad_record=read.on_bad_record,
        timezone=named.timezone,
        semantics=named.semantics,
    )
    unfiltered = parse_logic()
    first = compiled_checks.filtered_logic(unfiltered, checks)
    has_footers = connector_identity.is_files(read) and read.format in ids.FOOTERS
    parse = (
        compiled_checks.filtered_logic(parse_logic(tag="parse/2"), checks) if has_footers else first
    )
    earlier = first if has_footers else None
    if read.event_time is not None:
        options = connector_identity.logic_options(
            replace(read, keeps_late_rows=not read.keeps_late_rows)
        )
        earlier = compiled_checks.filtered_logic(parse_logic(options=options), checks)
    logic = ids.read_logic(parse, declared, read.schema_change, folders=folders)
    feed = connector_identity.feed_of(read, named.namespace)
    if feed is None:
        listing = connector_identity.listing_id(read, location)
    else:
        location = f"feed:{feed}"
        listing = connector_identity.feed_listing_id(feed, named.text.blueprint.dataflow)
    return Source(
        dataset=named.dataset,
        uid=named.uid,
        component=named.component,
        read=read,
        revision=named.revision,
        location=location,
        listing=listing,
        parse=parse,
        earlier=earlier,
        logic=logic,
        lineage=ids.lineage_id(logic, {"": listing}),
        declared=declared,
        timezone=named.timezone,
        spark=named.spark,
        reading=ids.read_logic(unfiltered, declared, read.schema_change, folders=folders),
        checks=checks,
        feed=feed,
    )


def sink(
    named: NamedComponent, write: Write, path: str, source: str, nodes: Mapping[str, Node]
) -> Sink:
    """`nodes` holds the dataset `source` and its inputs, unless these could not be compiled."""
    maker = nodes.get(source)
    keyed = connector_identity.key_columns(maker.key) if maker is not None else ()
    return Sink(
        dataset=named.dataset,
        uid=named.uid,
        component=named.component,
        write=write,
        revision=named.revision,
        source=source,
        path=path,
        identity=connector_identity.target_id(
            named.namespace, named.dataset, named.uid, write, path, keyed
        ),
        keyed=keyed,
        by_columns=connector_identity.is_keyed_by_columns(source, nodes),
    )


def transform(
    named: NamedComponent,
    body: SqlTransform | PythonTransform,
    analysed: sql.AnalysedQuery | code.CodeBundle,
    modes: Modes,
    checks: tuple[CompiledCheck, ...],
    nodes: Mapping[str, Node],
) -> Transform:
    """`analysed` is what its text was found to be; `nodes` holds its inputs."""
    is_volatile = bool(named.component.volatile or analysed.volatile)

    def own_logic(slots: tuple[Slot, ...]) -> bytes:
        own = compiled_checks.filtered_logic(
            _code_logic(named, body, analysed, replace(modes, slots=slots)), checks
        )
        return ids.volatile_logic(own, named.uid) if is_volatile else own

    own = own_logic(modes.slots)
    pin = bytes.fromhex(named.component.pin)
    logic = pin or own
    by_key: ByKey | None = None
    if modes.by_key and pin != own:  # a pin to what it is if it is read whole is kept
        own_by_key = own_logic(modes.by_key)
        by_key = ByKey(
            modes.by_key, pin or own_by_key, b"" if pin in (b"", own_by_key) else own_by_key, logic
        )
    upstream = {slot.name: nodes[slot.dataset].lineage for slot in modes.slots}
    return Transform(
        dataset=named.dataset,
        uid=named.uid,
        component=named.component,
        body=body,
        revision=named.revision,
        logic=logic,
        lineage=ids.lineage_id(logic, upstream),
        slots=modes.slots,
        spark=named.spark,
        query=analysed if isinstance(analysed, sql.AnalysedQuery) else None,
        bundle=analysed if isinstance(analysed, code.CodeBundle) else None,
        is_volatile=is_volatile,
        checks=checks,
        semantics=named.semantics,
        own=b"" if own == logic else own,
        fold=modes.fold,
        by_key=by_key,
    )


def _code_logic(
    named: NamedComponent,
    body: SqlTransform | PythonTransform,
    analysed: sql.AnalysedQuery | code.CodeBundle,
    modes: Modes,
) -> bytes:
    """The logic of the code, without checks and volatility."""
    by_slot: dict[str, Mode] = {slot.name: slot.mode for slot in modes.slots}
    if modes.fold is not None:
        by_slot[modes.fold.name] = ordered_fold.MODE
    return ids.transform_logic(
        "sql" if isinstance(analysed, sql.AnalysedQuery) else "python",
        analysed.digest,
        dict(body.params),
        by_slot,
        named.spark,
        named.semantics,
        entrypoint=body.entrypoint if isinstance(body, PythonTransform) else "",
        keyed=_keyed(body, modes.slots),
        requirements=body.requirements if isinstance(body, PythonTransform) else (),
        fold=modes.fold.logic if modes.fold else None,
        libraries=_libraries(analysed),
    )


def _libraries(analysed: sql.AnalysedQuery | code.CodeBundle) -> dict[str, str]:
    """The driver's libraries that the code imports, by the major versions within which their
    results are shared."""
    if not isinstance(analysed, code.CodeBundle):
        return {}
    return {name: libraries.LINES[name] for name in sorted(analysed.libraries)}


def _keyed(
    body: SqlTransform | PythonTransform, slots: tuple[Slot, ...]
) -> dict[str, object] | None:
    """How a key assigns rows to partitions, as part of the logic; None without a key."""
    if not body.partition_by:
        return None
    parts = [[part.column, part.granule, part.buckets] for part in body.partition_by]
    keyed: dict[str, object] = {
        "parts": parts,
        "columns": {slot.name: list(slot.columns) for slot in slots if slot.columns},
    }
    if reaches := {slot.name: list(slot.reach) for slot in slots if slot.reach is not None}:
        keyed["reach"] = reaches
    if body.is_final:
        keyed["emit"] = "final"
    return keyed

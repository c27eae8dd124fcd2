"""OpenLineage's events of runs: a state was committed, a copy was written to, a task was given up.
Pure.

A run has a START and an end at one time: the events report that data moved, not how long it took.
Ids follow from the reported change, so an event that is sent again is the same one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from controlplane.core.blueprint import SqlTransform
from controlplane.core.compile.nodes import Node, Sink, Source, Transform
from controlplane.core.lineage.facet import PRODUCER, facet
from controlplane.core.lineage.of_node import NodeLineage
from controlplane.core.lineage.openlineage_names import of_path, place
from controlplane.core.model.branches import MAIN
from controlplane.core.model.openlineage import (
    EventType,
    Facets,
    OpenLineageDataset,
    OpenLineageJob,
    RunEvent,
)
from controlplane.core.model.states import State
from controlplane.core.model.table_paths import table_path
from controlplane.core.redaction import redacted
from dataplane.contract.encoding import digest
from dataplane.contract.keys import encode_segment
from dataplane.contract.schemas import Field, Schema, Type

SPEC: Final = "https://openlineage.io/spec"
EVENT: Final = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
OWN: Final = f"{PRODUCER}/HeadgateStateRunFacet.json"  # docs/lineage.md lists its fields
MOST_TEXT: Final = 100_000  # characters of a query; of a message, a hundredth
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*://[A-Za-z0-9._~@-]+(:[0-9]+)?(/[A-Za-z0-9._~/-]*)?")
_VERSIONS: Final = {
    "SchemaDatasetFacet": "1-2-0",
    "DatasourceDatasetFacet": "1-0-1",
    "DatasetVersionDatasetFacet": "1-0-1",
    "StorageDatasetFacet": "1-0-1",
    "SymlinksDatasetFacet": "1-0-1",
    "SQLJobFacet": "1-1-0",
    "JobTypeJobFacet": "2-0-4",
    "OwnershipDatasetFacet": "1-0-1",
    "OwnershipJobFacet": "1-0-1",
    "SourceCodeLocationJobFacet": "1-1-0",
    "ErrorMessageRunFacet": "1-0-1",
}


@dataclass(frozen=True, slots=True)
class RunInput:
    """A dataset that a run read. `root`, `schema`: None where they are not known."""

    dataset: str
    root: bytes | None = None
    schema: Schema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComponent:
    """A component in a branch, and what its run read. `node`: None where the code of then is no
    longer known; `lineage`: None where its columns cannot be determined."""

    namespace: str  # of the installation
    branch: str
    dataset: str
    lake: str
    node: Node | None
    lineage: NodeLineage | None
    inputs: tuple[RunInput, ...]

    @property
    def home(self) -> str:
        """The namespace of jobs and datasets."""
        return f"headgate://{self.namespace}/{self.branch}"


def committed(component: RunComponent, state: State) -> list[RunEvent]:
    """A new state of a dataset, by its run."""
    state_facet = {
        "generation": state.generation,
        "seq": state.seq,
        "root": state.root.hex(),
        "revision": state.revision,
        "cause": state.cause,
        "partitions": state.partitions,
        "rows": state.rows,
    }
    id = _run_id(component, "commit", seq=state.seq)
    run = {"headgate_state": _own(component, state_facet)}
    return _events(component, "COMPLETE", id, run, state.at, _state_of(component, state))


def written(component: RunComponent, event: int, partitions: int, at: float) -> list[RunEvent]:
    """Events of a write to a copy, which one of our own events reported."""
    run = {"headgate_state": _own(component, {"partitions": partitions})}
    id = _run_id(component, "written", event=event)
    return _events(component, "COMPLETE", id, run, at, _ours(component, component.dataset, {}))


def failed(component: RunComponent, base: int, message: str, at: float) -> list[RunEvent]:
    """A task was given up. `base`: the `seq` of the state that the dataset had then: all that fails
    on the way to the next one is one run."""
    error = {
        **_head("ErrorMessageRunFacet"),
        "message": redacted(message)[: MOST_TEXT // 100],
        "programmingLanguage": "PYTHON" if _kind(component) == "PYTHON" else "SQL",
    }
    run = {"headgate_state": _own(component, {"base": base}), "errorMessage": error}
    return _events(
        component,
        "FAIL",
        failed_run(component, base),
        run,
        at,
        _ours(component, component.dataset, {}),
    )


def failed_run(component: RunComponent, base: int) -> str:
    """The id of the run that `failed` reports."""
    return _run_id(component, "failed", base=base)


def _run_id(component: RunComponent, kind: str, **fields: int) -> str:
    """A UUID of version 8, whose bits follow from what the run is of."""
    where = {
        "namespace": component.namespace,
        "branch": component.branch,
        "dataset": component.dataset,
    }
    bits = int.from_bytes(
        digest("openlineage/1", kind=kind, lake=component.lake, **where, **fields)[:16]
    )
    bits = bits & ~(0xF << 76) | 8 << 76
    bits = bits & ~(0x3 << 62) | 2 << 62
    text = f"{bits:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _events(
    component: RunComponent,
    end: EventType,
    id: str,
    run: Facets,
    at: float,
    output: OpenLineageDataset,
) -> list[RunEvent]:
    when = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    types: tuple[EventType, ...] = ("START", end)
    return [
        {
            "eventType": event_type,
            "eventTime": when,
            "run": {"runId": id, "facets": run},
            "job": _job(component),
            "inputs": _inputs(component),
            "outputs": [output],
            "producer": PRODUCER,
            "schemaURL": EVENT,
        }
        for event_type in types
    ]


# --- the job --------------------------------------------------------------------------------------


def _job(component: RunComponent) -> OpenLineageJob:
    facets: dict[str, Mapping[str, object]] = {
        "jobType": {
            **_head("JobTypeJobFacet"),
            "processingType": "BATCH",
            "integration": "HEADGATE",
            "jobType": _kind(component),
        }
    }
    node = component.node
    if (
        node is not None
        and node.is_transform
        and isinstance(node.body, SqlTransform)
        and len(node.body.sql) <= MOST_TEXT
    ):
        facets["sql"] = {**_head("SQLJobFacet"), "query": node.body.sql, "dialect": "spark"}
    if node is not None:
        facets |= _ownership("OwnershipJobFacet", node) | _code_location(node)
    return {"namespace": component.home, "name": component.dataset, "facets": facets}


def _ownership(facet_name: str, node: Node) -> dict[str, Mapping[str, object]]:
    owner = node.component.owner
    return {"ownership": {**_head(facet_name), "owners": [{"name": owner}]}} if owner else {}


def _code_location(node: Node) -> dict[str, Mapping[str, object]]:
    """The blueprint's file, if its folder is known. Our revision of it is the version: a file need
    not be in a repository."""
    file = node.component.place.file
    if not file.startswith("/"):
        return {}
    url = "file://" + "/".join(map(encode_segment, file.split("/")))
    location = {"type": "file", "url": url, "path": file, "version": str(node.revision)}
    return {"sourceCodeLocation": {**_head("SourceCodeLocationJobFacet"), **location}}


def _kind(component: RunComponent) -> str:
    match component.node:
        case Source():
            return "READ"
        case Sink():
            return "WRITE"
        case Transform(query=None):
            return "PYTHON"
        case Transform():
            return "SQL"
        case None:
            return "COMPONENT"


def _own(component: RunComponent, fields: Mapping[str, object]) -> dict[str, object]:
    """What OpenLineage has no word for."""
    return {"_producer": PRODUCER, "_schemaURL": OWN, "branch": component.branch, **fields}


# --- datasets -------------------------------------------------------------------------------------


def _inputs(component: RunComponent) -> list[OpenLineageDataset]:
    node = component.node
    if node is not None and node.is_source:
        return [outside(*place(node.read, node.location))]
    return [
        _ours(component, consumed.dataset, _known_facets(consumed.root, consumed.schema))
        for consumed in component.inputs
    ]


def _state_of(component: RunComponent, state: State) -> OpenLineageDataset:
    facets = _known_facets(state.root, state.schema)
    if component.lineage is not None:
        facets["columnLineage"] = {**facet(component.lineage, component.home)}
    if component.branch == MAIN:  # tables of branches are not written
        facets["storage"] = {
            **_head("StorageDatasetFacet"),
            "storageLayer": "delta",
            "fileFormat": "parquet",
        }
        table = f"{component.lake.rstrip('/')}/{table_path(component.namespace, MAIN, component.dataset)}"
        facets["symlinks"] = {**_head("SymlinksDatasetFacet"), "identifiers": [_table(table)]}
    return _ours(component, component.dataset, facets)


def _table(uri: str) -> dict[str, str]:
    """The address at which other programs know the table."""
    namespace, name = of_path(uri)
    return {"namespace": namespace, "name": name, "type": "LOCATION"}


def _ours(
    component: RunComponent, dataset: str, facets: Mapping[str, Mapping[str, object]]
) -> OpenLineageDataset:
    node = component.node
    if node is not None and node.is_copy and dataset == component.dataset:
        return outside(*place(node.write, node.path))
    source = {"dataSource": _source("headgate", component.home)}
    owner = (
        _ownership("OwnershipDatasetFacet", node)
        if node is not None and dataset == component.dataset
        else {}
    )
    return {"namespace": component.home, "name": dataset, "facets": {**source, **owner, **facets}}


def outside(namespace: str, name: str) -> OpenLineageDataset:
    """A dataset that is not ours. A namespace that is no URI has no address."""
    is_uri = _URI.fullmatch(namespace) is not None
    facets = {"dataSource": _source(namespace.partition(":")[0], namespace)} if is_uri else {}
    return {"namespace": namespace, "name": name, "facets": facets}


def _source(name: str, uri: str) -> Mapping[str, object]:
    return {**_head("DatasourceDatasetFacet"), "name": name, "uri": uri}


def _known_facets(root: bytes | None, schema: Schema | None) -> dict[str, Mapping[str, object]]:
    facets: dict[str, Mapping[str, object]] = {}
    if root is not None:
        facets["version"] = {**_head("DatasetVersionDatasetFacet"), "datasetVersion": root.hex()}
    if schema is not None and schema["fields"]:
        facets["schema"] = {**_head("SchemaDatasetFacet"), "fields": _fields(schema["fields"])}
    return facets


def _fields(fields: Sequence[Field]) -> list[dict[str, object]]:
    return [_field(field["name"], field["type"]) for field in fields]


def _field(name: str, kind: Type) -> dict[str, object]:
    """Parts of lists and maps have the names that OpenLineage gives them."""
    if isinstance(kind, str):
        return {"name": name, "type": kind}
    match kind["type"]:
        case "struct":
            return {"name": name, "type": "struct", "fields": _fields(kind["fields"])}
        case "array":
            return {
                "name": name,
                "type": "array",
                "fields": [_field("_element", kind["elementType"])],
            }
        case "map":
            parts = [_field("key", kind["keyType"]), _field("value", kind["valueType"])]
            return {"name": name, "type": "map", "fields": parts}
        case "udt":
            return {"name": name, "type": "udt"}


def _head(name: str) -> dict[str, object]:
    """What every facet begins with."""
    return {
        "_producer": PRODUCER,
        "_schemaURL": f"{SPEC}/facets/{_VERSIONS[name]}/{name}.json#/$defs/{name}",
    }

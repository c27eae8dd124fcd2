"""Whether run events are what OpenLineage specifies: the event as a whole, and each facet by its
own schema.

Does not belong here: what an event should say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs  # which schemathesis brings

SPEC = json.loads(Path(__file__).with_name("spec.json").read_text())
FACETS = {
    "columnLineage": "ColumnLineageDatasetFacet",
    "dataSource": "DatasourceDatasetFacet",
    "errorMessage": "ErrorMessageRunFacet",
    "jobType": "JobTypeJobFacet",
    "schema": "SchemaDatasetFacet",
    "sourceCodeLocation": "SourceCodeLocationJobFacet",
    "sql": "SQLJobFacet",
    "storage": "StorageDatasetFacet",
    "symlinks": "SymlinksDatasetFacet",
    "version": "DatasetVersionDatasetFacet",
}
OWNERSHIP = {"job": "OwnershipJobFacet", "dataset": "OwnershipDatasetFacet"}
OURS = {"headgate_state"}


def valid(text: bytes) -> Any:
    """The event, which is as it is specified. Raises AssertionError that names what is not."""
    event = json.loads(text)
    _check("RunEvent", event)
    for of, name, facet in _facets(event):
        if name not in OURS:
            _check(OWNERSHIP[of] if name == "ownership" else FACETS[name], facet)
    return event


def _facets(event: Any) -> Iterator[tuple[str, str, Any]]:
    places = [("run", event["run"]), ("job", event["job"])]
    places += [("dataset", one) for one in (*event["inputs"], *event["outputs"])]
    for of, place in places:
        for name, facet in place["facets"].items():
            yield of, name, facet


def _check(definition: str, value: Any) -> None:
    found = [
        f"{definition} at {list(e.instance_path)}: {e.message}"
        for e in _validator(definition).iter_errors(value)
    ]
    assert not found, found


@cache
def _validator(definition: str) -> jsonschema_rs.Validator:
    schema = {**SPEC, "$ref": f"#/$defs/{definition}"}
    return jsonschema_rs.validator_for(schema, validate_formats=True)

"""Makes spec.json: OpenLineage's schema of run events and of the facets that we send, for tests to
validate against.

The source is OpenLineage's own client for Python, whose classes are generated from the
specification (its JSON files are in no package). Run it beside that client, where a version of the
specification is to be followed:

    uv run --no-project --with openlineage-python==1.54.0 tests/openlineage/make.py

What it adds is strictness: a field that the specification does not name is refused, but where it
allows others.
"""

from __future__ import annotations

import json
import types
import typing
from enum import Enum
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attr

ROOTS = {
    "RunEvent": "base",
    "ColumnLineageDatasetFacet": "column_lineage_dataset",
    "DatasetVersionDatasetFacet": "dataset_version_dataset",
    "DatasourceDatasetFacet": "datasource_dataset",
    "ErrorMessageRunFacet": "error_message_run",
    "JobTypeJobFacet": "job_type_job",
    "OwnershipDatasetFacet": "ownership_dataset",
    "OwnershipJobFacet": "ownership_job",
    "SQLJobFacet": "sql_job",
    "SchemaDatasetFacet": "schema_dataset",
    "SourceCodeLocationJobFacet": "source_code_location_job",
    "StorageDatasetFacet": "storage_dataset",
    "SymlinksDatasetFacet": "symlinks_dataset",
}
FORMATS = {
    "eventTime": "date-time",
    "producer": "uri",
    "schemaURL": "uri",
    "_producer": "uri",
    "_schemaURL": "uri",
    "runId": "uuid",
    "uri": "uri",
    "url": "uri",
}
# The client fills them in; they are required
GIVEN = {"eventTime", "producer", "schemaURL", "_producer", "_schemaURL"}
# Custom ones have more
OPEN = {"RunFacet", "JobFacet", "DatasetFacet", "InputDatasetFacet", "OutputDatasetFacet"}
definitions: dict[str, Any] = {}


def of_type(kind: Any) -> dict[str, Any]:
    """The schema of an annotation."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        found = [one for one in args if one is not type(None)]
        return of_type(found[0]) if len(found) == 1 else {"anyOf": [of_type(one) for one in found]}
    if origin is list:
        return {"type": "array", "items": of_type(args[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": of_type(args[1])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    simple = {str: "string", int: "integer", bool: "boolean", float: "number"}
    return {"type": simple[kind]} if kind in simple else of_class(kind)


def of_class(cls: type) -> dict[str, Any]:
    """A reference to a class, which is defined."""
    if cls.__name__ not in definitions:
        definitions[cls.__name__] = {}
        definitions[cls.__name__].update(defined(cls))
    return {"$ref": f"#/$defs/{cls.__name__}"}


def defined(cls: Any) -> dict[str, Any]:
    names = typing.get_type_hints(cls)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for one in cls.__attrs_attrs__:
        found = of_type(names[one.name])
        properties[one.name] = (
            {**found, "format": FORMATS[one.name]} if one.name in FORMATS else found
        )
        if one.default is attr.NOTHING or one.name in GIVEN:
            required.append(one.name)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": sorted(required),
    }
    if cls.__name__ not in OPEN:
        schema["additionalProperties"] = False
    if "_schemaURL" in properties and cls.__name__ not in OPEN:
        properties["_schemaURL"] = {"const": cls._get_schema()}
    if cls.__name__ == "RunEvent":
        properties["schemaURL"] = {"const": cls._get_schema()}
        # Of which the specification says that each run has two
        schema["required"].append("eventType")
    return schema


def main() -> None:
    for name, module in ROOTS.items():
        of_class(getattr(import_module(f"openlineage.client.generated.{module}"), name))
    comment = (
        f"Made by make.py from openlineage-python {version('openlineage-python')}, copyright 2018-2026 contributors to "
        "the OpenLineage project, Apache-2.0 (the text of that licence is beside this file: LICENSE)."
    )
    spec = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$comment": comment,
        "$ref": "#/$defs/RunEvent",
        "$defs": dict(sorted(definitions.items())),
    }
    Path(__file__).with_name("spec.json").write_text(json.dumps(spec, indent=1) + "\n")


if __name__ == "__main__":
    main()

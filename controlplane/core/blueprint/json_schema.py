"""JSON Schema (2020-12) of the blueprint language, for editors; made from the tables that the
parser uses.

A blueprint with shared parts may leave out in a component what these parts say. So its components
have the same keys, and none is required.
"""

from __future__ import annotations

from controlplane.core.blueprint.language import BLUEPRINT, COMPONENT
from controlplane.core.blueprint.shared_parts import PARAMS, SHARED
from controlplane.core.blueprint.transforms import NAME
from controlplane.core.blueprint.value_kinds import JsonSchema


def json_schema() -> JsonSchema:
    blueprint = BLUEPRINT.schema()
    strict = blueprint["properties"]["components"]
    loose = {"type": "object", "propertyNames": NAME.schema(), "description": strict["description"]}
    blueprint["properties"]["components"] = loose
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:headgate:schema:blueprint-v1",
        "title": "Headgate blueprint",
        **blueprint,
        "if": {"anyOf": [{"required": [key.name]} for key in SHARED]},
        "then": _components({**strict, "additionalProperties": _part()}),
        "else": _components(strict),
    }


def _components(schema: JsonSchema) -> JsonSchema:
    return {"properties": {"components": schema}}


def _part() -> JsonSchema:
    """A component that may leave any key to shared parts."""
    properties = dict(COMPONENT.schema()["properties"])
    for body in ("read", "write"):
        properties[body] = _of_any_connector(properties[body])
    transform = dict(properties["transform"])
    del transform["oneOf"]
    properties["transform"] = transform
    for body in ("cdc", "distinct"):
        properties[body] = {k: v for k, v in properties[body].items() if k != "required"}
    properties["template"] = {**NAME.schema(), "description": "The template that it is made from."}
    properties["params"] = {**PARAMS, "description": "Values of the template's parameters."}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _of_any_connector(body: JsonSchema) -> JsonSchema:
    """The keys of all connectors. A value is checked only where they agree."""
    properties: JsonSchema = {
        "connection": {**NAME.schema(), "description": "The connection that it uses."}
    }
    for connector in body["oneOf"]:
        for key, schema in connector["properties"].items():
            properties[key] = schema if properties.get(key, schema) == schema else {}
    return {"type": "object", "properties": properties, "additionalProperties": False}

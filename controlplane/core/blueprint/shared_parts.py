"""The sections of what components share, for editors and the list of keys: they are read by
`expansion`."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.core.blueprint import connections, defaults
from controlplane.core.blueprint.section_keys import Key
from controlplane.core.blueprint.transforms import NAME
from controlplane.core.blueprint.value_kinds import JsonSchema, Reading
from controlplane.core.blueprint.yaml_nodes import Node

VALUE: JsonSchema = {"type": ["string", "number", "boolean", "null"]}
PARAMS: JsonSchema = {"type": "object", "additionalProperties": VALUE}


@dataclass(frozen=True, slots=True)
class _Expanded:
    """A section that has been put where it is used."""

    shape: JsonSchema

    def read(self, node: Node, reading: Reading) -> None:
        """Nothing is left to read."""

    def schema(self) -> JsonSchema:
        return self.shape


def _by_name(value: JsonSchema) -> JsonSchema:
    return {"type": "object", "propertyNames": NAME.schema(), "additionalProperties": value}


def _open(*keys: str) -> JsonSchema:
    return {
        "type": "object",
        "properties": {key: {} for key in keys},
        "additionalProperties": False,
    }


_TEMPLATE: JsonSchema = {"type": "object", "properties": {"params": PARAMS}}
DEFAULTS = Key(
    "defaults",
    _Expanded(_open(*defaults.KEYS, *defaults.BODIES)),
    None,
    "What components have by default.",
    example={"owner": "team-revenue"},
)
TEMPLATES = Key(
    "templates",
    _Expanded(_by_name(_TEMPLATE)),
    None,
    "Components with parameters, by name.",
    example={"table": {"params": {"name": None}}},
)
CONNECTIONS = Key(
    "connections",
    _Expanded(_by_name(_open(*connections.KEYS))),
    None,
    "Connections by name.",
    example={"shop": {"connector": "jdbc", "url": "secret://shop/url"}},
)
SCHEMAS = Key(
    "schemas",
    _Expanded(_by_name({"type": "string"})),
    None,
    "Columns as DDL, by name.",
    example={"orders": "id BIGINT, amount DOUBLE"},
)
SHARED = (DEFAULTS, TEMPLATES, CONNECTIONS, SCHEMAS)

"""The keys of `connector: dlt`: a resource of the library dlt, for REST APIs and services.

The code of a source is identified by its syntax tree, and run in the data plane alone. Does not
belong here: keys that connectors share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.core.blueprint.common_keys import READ_CONNECTOR, REFRESH, SCHEMA
from controlplane.core.blueprint.model import Read
from controlplane.core.blueprint.problems import BlueprintRefused, Code, shown
from controlplane.core.blueprint.python import module_settings
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.text_forms import no_link_local
from controlplane.core.blueprint.text_places import ParamValue
from controlplane.core.blueprint.transforms import FILE, MODULES, NO_CODE
from controlplane.core.blueprint.value_kinds import (
    Choice,
    JsonSchema,
    Reading,
    SourceText,
    Text,
    secret_fault,
    wrong_type,
)
from controlplane.core.blueprint.yaml_nodes import BrokenNode, Entries, Items, Node, Scalar
from dataplane.contract.schemas import Json


@dataclass(frozen=True, slots=True)
class Config:
    """A mapping of plain values, lists and mappings, as JSON. Texts may refer to secrets."""

    def read(self, node: Node, reading: Reading) -> str:
        if not isinstance(node, Entries):
            raise wrong_type(node, "a mapping", reading)
        return json.dumps(_plain(node, reading), sort_keys=True)

    def schema(self) -> JsonSchema:
        return {"type": "object"}


def _plain(node: Node, reading: Reading) -> Json:
    match node:
        case Entries(entries=entries):
            return {key.text: _plain(node, reading) for key, node in entries}
        case Items(items=items):
            return [_plain(node, reading) for node in items]
        case BrokenNode():
            raise BlueprintRefused  # which has been reported
        case Scalar():
            return _scalar(node, reading)


def _scalar(node: Scalar, reading: Reading) -> ParamValue:
    fault = (
        secret_fault(node.text) if "secret://" in node.text else no_link_local(node.text.strip())
    )
    if fault:
        raise reading.refuse(node, *fault)
    return node.value


MERGE = "append, and a cdc component with sequence_by: [_load, _row] behind it"

PYTHON = Key(
    "python",
    SourceText("Python"),
    NO_CODE,
    "A module with a source or resource of dlt.",
    example="def tickets(): ...",
)
REST_API = Key(
    "rest_api",
    Config(),
    "",
    "The configuration of dlt's rest_api source.",
    example={"client": {"base_url": "https://api.example"}, "resources": ["tickets"]},
)
SOURCE: Key[str | None] = Key(
    "source",
    Text(),
    None,
    "A function in file or python; else module:function of an installed package.",
    example="shop",
)
RESOURCE = Key("resource", Text(), "", "The resource to read.", is_required=True, example="tickets")
ARGUMENTS = Key(
    "arguments",
    Config(),
    "{}",
    "Arguments of the function; secrets as secret://name/key.",
    example={"since": "2024-01-01", "token": "secret://shop/token"},
)
DISPOSITION = Key(
    "write_disposition",
    Choice(("replace", "append"), hints=(("merge", MERGE),)),
    "replace",
    "Whether a load is all rows, or adds a partition.",
)
_BODIES = (REST_API, FILE, PYTHON)


def _read(fields: Fields, reading: Reading) -> Read:
    _report_bodies(fields, reading)
    if SCHEMA.name not in fields.nodes:
        message = "the key 'schema' is missing; rows of an API have no columns of their own"
        reading.problems.add(fields.place, "missing-key", message, "schema: id BIGINT, name STRING")
    settings: dict[str, ParamValue] = {
        "arguments": fields[ARGUMENTS],
        "resource": fields[RESOURCE],
        "rest_api": fields[REST_API],
        "row_schema": fields[SCHEMA],
        "source": fields[SOURCE],
        "write_disposition": fields[DISPOSITION],
        **_code(fields, reading),
    }
    return Read(
        connector="dlt",
        path=f"dlt:{fields[RESOURCE]}",
        format="dlt",
        schema=fields[SCHEMA],
        refresh_s=fields[REFRESH].every_s,
        cron=fields[REFRESH].cron,
        on_demand_s=fields[REFRESH].on_demand_s,
        settings=tuple(sorted(settings.items())),
        is_growing=fields[DISPOSITION] == "append",
    )


def _report_bodies(fields: Fields, reading: Reading) -> None:
    """`rest_api` is a source by itself; the others name a function."""
    bodies = fields.present(_BODIES)
    for extra in bodies[1:]:
        message = f"{extra.text!r} cannot stand beside {bodies[0].text!r}"
        hint = "give one of rest_api, file, python, or source: module:function"
        reading.problems.add(extra.place, "conflicting-keys", message, hint)
    is_function = REST_API.name not in fields.nodes
    if is_function and not bodies and ":" not in (fields[SOURCE] or ":"):
        message = f"{shown(fields[SOURCE] or '')} is in no module"
        hint = "source: module:function of an installed package; or file or python beside it"
        reading.problems.add(fields.nodes[SOURCE.name][1].place, "invalid-value", message, hint)
    if is_function == (SOURCE.name in fields.nodes):
        return
    message = "a source is `rest_api`, or a function that `source` names"
    hint = "source: function, beside file or python; or source: module:function"
    kind: Code = "missing-key" if is_function else "conflicting-keys"
    reading.problems.add(fields.place, kind, message, hint)


def _code(fields: Fields, reading: Reading) -> Mapping[str, ParamValue]:
    """The user's modules, where there are some."""
    if not fields.present((FILE, PYTHON)) or SOURCE.name not in fields.nodes:
        return {}
    return module_settings(fields, reading, [fields[SOURCE] or ""])


READ = Nested(
    Section(
        (
            READ_CONNECTOR,
            REST_API,
            FILE,
            PYTHON,
            MODULES,
            SOURCE,
            RESOURCE,
            ARGUMENTS,
            DISPOSITION,
            SCHEMA,
            REFRESH,
        ),
        first="connector",
        may_hold_secrets=True,
    ),
    _read,
)

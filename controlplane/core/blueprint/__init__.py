"""Blueprints: from YAML text to a checked model, or every problem with its line and column."""

from controlplane.core.blueprint.json_schema import json_schema
from controlplane.core.blueprint.model import (
    QUARANTINE,
    Blueprint,
    Body,
    Component,
    Expectation,
    InputHint,
    KeyColumn,
    Previous,
    PythonTransform,
    Read,
    Retention,
    Settings,
    SparkSettings,
    SqlTransform,
    Write,
)
from controlplane.core.blueprint.parse import Draft, draft, file_references, parse, written_out
from controlplane.core.blueprint.text_places import ParamValue, Position, TextPlace

__all__ = [
    "QUARANTINE",
    "Blueprint",
    "Body",
    "Component",
    "Draft",
    "Expectation",
    "InputHint",
    "KeyColumn",
    "ParamValue",
    "Position",
    "Previous",
    "PythonTransform",
    "Read",
    "Retention",
    "Settings",
    "SparkSettings",
    "SqlTransform",
    "TextPlace",
    "Write",
    "draft",
    "file_references",
    "json_schema",
    "parse",
    "written_out",
]

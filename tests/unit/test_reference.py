"""The page with a row for each key is as the tables of keys say, and its examples are right."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema_rs  # which schemathesis brings
import pytest
import yaml

from controlplane.core.blueprint.language import BLUEPRINT

ROOT = Path(__file__).parents[2]
Schema = dict[str, Any]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("reference", str(ROOT / "scripts" / "reference"))
    spec = importlib.util.spec_from_loader("reference", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for it
    loader.exec_module(module)
    return module


def test_the_page_is_as_the_tables_say(script: ModuleType) -> None:
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), (
        "run .venv/bin/python scripts/reference"
    )


def _keys(script: ModuleType, schema: Schema, prefix: str = "") -> Iterator[tuple[str, Schema]]:
    for name, key in schema["properties"].items():
        yield f"{prefix}{name}", key
        if inner := script._inner(name, key):
            yield from _keys(script, inner, f"{prefix}{name}.")


def test_every_key_has_an_example_that_its_schema_takes(script: ModuleType) -> None:
    for section in script.sections(BLUEPRINT.schema()):
        for path, key in _keys(script, section.schema):
            written = script.example(path, key)
            (value,) = yaml.safe_load(written.strip("`")).values()
            assert jsonschema_rs.validator_for(key).is_valid(value), (
                f"{section.title}: {path}: {written}"
            )

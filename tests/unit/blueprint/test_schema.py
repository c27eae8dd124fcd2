"""The JSON Schema says what the parser does: same keys, same words, at every level."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from controlplane.core.blueprint import json_schema
from tests.unit.blueprint.texts import READ, component, problems_of

COMPONENTS = json_schema()["properties"]["components"]["additionalProperties"]["properties"]
FIXED = {"connector": "files", "path": "a", "format": "csv", "from": "x"}


def choices(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys whose value is one of a few words, with each word."""
    for key, value in schema["properties"].items():
        yield from ((key, word) for word in value.get("enum", ()))


CASES = [(part, key, word) for part in ("read", "write") for key, word in choices(COMPONENTS[part])]


@pytest.mark.parametrize(("part", "key", "word"), CASES)
def test_every_word_that_editors_offer_is_accepted(part: str, key: str, word: str) -> None:
    required = {k: FIXED[k] for k in COMPONENTS[part]["required"]}
    assert problems_of(component(f"{part}: {json.dumps({**required, key: word})}")) == ()


@pytest.mark.parametrize("key", sorted(COMPONENTS["read"]["required"]))
def test_what_editors_require_is_required(key: str) -> None:
    given = {k: v for k, v in FIXED.items() if k not in (key, "from")}
    (found,) = problems_of(component(f"read: {json.dumps(given)}"))
    assert (found.code, key in found.message) == ("missing-key", True)


def test_no_key_is_unknown_that_editors_offer() -> None:
    for key in COMPONENTS.keys() - {"read", "write", "transform"}:
        assert "unknown-key" not in {p.code for p in problems_of(component(f"{READ}\n{key}: 1"))}


def test_the_schema_is_plain_json() -> None:
    found = json_schema()
    assert json.loads(json.dumps(found)) == found
    assert found["additionalProperties"] is False
    assert COMPONENTS["transform"]["oneOf"] == [{"required": [k]} for k in ("sql", "python", "file")]
    assert COMPONENTS["transform"]["properties"]["inputs"]["additionalProperties"]["anyOf"][0] == {
        "enum": ["each", "all", "by", "previous"]
    }

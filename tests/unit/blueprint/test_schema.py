"""The JSON Schema says what the parser does: same keys, same words, at every level."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from controlplane.core.blueprint import json_schema
from tests.unit.blueprint.texts import READ, component, problems_of

COMPONENTS = json_schema()["else"]["properties"]["components"]["additionalProperties"]["properties"]
FIXED: dict[str, Any] = {
    "path": "a",
    "format": "csv",
    "from": "x",
    "url": "jdbc:postgresql://h/d",
    "table": "t",
    "servers": "a:1",
    "topic": "t",
    "key": ["a"],
}
SECTIONS = [(part, one) for part in ("read", "write") for one in COMPONENTS[part]["oneOf"]]


def choices(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys whose value is one of a few words, with each word."""
    for key, value in schema["properties"].items():
        yield from ((key, word) for word in value.get("enum", ()))


def required(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a section of a connector must have."""
    connector = {"connector": schema["properties"]["connector"]["const"]}
    needed = [*schema["required"], *(schema["oneOf"][0]["required"] if "oneOf" in schema else ())]
    return {k: FIXED[k] for k in needed if k in FIXED} | connector


AVRO = {"format": "avro", "registry": "http://a:1"}
# Words that need others
TOGETHER: dict[str, dict[str, Any]] = {
    "upsert": {"key": ["a"]},
    "read kafka json": {"schema": "a INT"},
    "read kafka debezium": {"schema": "a INT"},
    **{
        f"read dlt {word}": {"source": "s:f", "resource": "r", "schema": "a INT"}
        for word in ("replace", "append")
    },
    **{
        f"read spark {word}": {"format": "mongodb", "schema": "a INT"}
        for word in ("each run", "options")
    },
    "read files fixed": {"options": {"columns": "a:1-5"}},
    "read files xml": {"options": {"rowTag": "r"}},
    **{f"read kafka {word}": AVRO for word in ("avro", "append", "sync")},
    **{
        f"read kafka {word}": {**AVRO, "event_time": {"column": "_timestamp"}}
        for word in ("fail", "drop", "quarantine", "correct", "keep")
    },
}
CASES = [
    (
        part,
        {
            **given,
            key: word,
            **TOGETHER.get(word, {}),
            **TOGETHER.get(f"{part} {given['connector']} {word}", {}),
        },
    )
    for part, one in SECTIONS
    for key, word in choices(one)
    if (given := required(one))
]


@pytest.mark.parametrize(("part", "given"), CASES)
def test_every_word_that_editors_offer_is_accepted(part: str, given: dict[str, Any]) -> None:
    assert problems_of(component(f"{part}: {json.dumps(given)}")) == ()


LACKING = [
    (part, {k: v for k, v in required(one).items() if k != key}, key)
    for part, one in SECTIONS
    for key in one["required"]
]


@pytest.mark.parametrize(("part", "given", "key"), LACKING)
def test_what_editors_require_is_required(part: str, given: dict[str, Any], key: str) -> None:
    assert ("missing-key", True) in [
        (p.code, key in p.message) for p in problems_of(component(f"{part}: {json.dumps(given)}"))
    ]


def test_no_key_is_unknown_that_editors_offer() -> None:
    for key in COMPONENTS.keys() - {"read", "write", "transform"}:
        assert "unknown-key" not in {p.code for p in problems_of(component(f"{READ}\n{key}: 1"))}


def test_the_schema_is_plain_json() -> None:
    found = json_schema()
    assert json.loads(json.dumps(found)) == found
    assert found["additionalProperties"] is False
    assert COMPONENTS["transform"]["oneOf"] == [
        {"required": [k]} for k in ("sql", "python", "file")
    ]
    assert COMPONENTS["transform"]["properties"]["inputs"]["additionalProperties"]["anyOf"][0] == {
        "enum": ["each", "all", "by", "previous"]
    }

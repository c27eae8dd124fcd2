"""Whether a row of JSON values belongs to a partition's key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo

from dataplane.contract.cells import typed
from dataplane.contract.key_values import key_text
from dataplane.contract.keys import KeyPart, column_texts
from dataplane.contract.schemas import Json, Schema


def has_key(
    row: Mapping[str, Json], schema: Schema, parts: Sequence[KeyPart], key: str, zone: tzinfo
) -> bool:
    """Raises BadCell for a value that is none of its type."""
    types = {field["name"]: field["type"] for field in schema["fields"]}
    for part, text in zip(parts, column_texts(key), strict=True):
        value = typed(types[part["column"]], row.get(part["column"]), zone)
        if key_text(value, part, zone) != text:
            return False
    return True

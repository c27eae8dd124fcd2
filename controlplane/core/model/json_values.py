"""JSON of any form: what users write, or Spark gives."""

from __future__ import annotations

from typing import TypeAlias

# Pydantic describes no other recursive type before Python 3.12
from typing_extensions import TypeAliasType

JsonValue = TypeAliasType(
    "JsonValue", "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
)
JsonObject: TypeAlias = dict[str, JsonValue]

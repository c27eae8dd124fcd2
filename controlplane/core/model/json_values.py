"""JSON of any form: what users write, or Spark gives."""

from __future__ import annotations

from typing import TypeAlias

from typing_extensions import TypeAliasType  # pydantic describes no other recursive type before Python 3.12

JsonValue = TypeAliasType("JsonValue", "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None")
JsonObject: TypeAlias = dict[str, JsonValue]

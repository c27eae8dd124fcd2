"""How partitions get their keys: source objects by their names, rows by the values of columns.

The functions that both planes use live in the contract.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from controlplane.core.blueprint.key_columns import GRANULES
from controlplane.core.blueprint.model import KeyColumn
from dataplane.contract.globs import fixed_folder
from dataplane.contract.key_values import MINUTES
from dataplane.contract.keys import KeyPart, key_of, template_pieces
from dataplane.contract.schemas import Schema

__all__ = ["column_fault", "fixed_folder", "key_of", "key_parts", "named", "template_fault"]

_WORD = re.compile(r"\{[a-z][a-z0-9_]*\}")


def template_fault(template: str) -> tuple[str, str] | None:
    """The fault of a template such as `{year}/{month}-*.csv`, with a hint; None if it has none."""
    example = "for example {month}.csv"
    folders = [template_pieces(folder) for folder in template.split("/")]
    words = [w for pieces in folders for w in pieces[1::2] if w != "*"]
    literals = [text for pieces in folders for text in pieces[::2]]
    if bad := next((w for w in words if not _WORD.fullmatch(w)), None):
        return f"{bad[:40]!r} is no placeholder", "a to z, 0 to 9 and _ between { and }"
    if any(c in text for text in literals for c in "{}"):
        return "a brace is not closed or not opened", example
    if not words:
        return "a template needs a placeholder", example
    if len(set(words)) < len(words):
        return "a placeholder is used twice", "give each its own name"
    if any("" in pieces[2:-1:2] for pieces in folders):
        return (
            "two placeholders or * touch: where the first ends is open",
            "put a text between them",
        )
    return None


# --- keys of columns ------------------------------------------------------------------------------

_WHOLE = ("byte", "short", "integer", "long", "string", "boolean", "date")
_TIMES = ("timestamp", "timestamp_ntz")


def named(schema: Schema, column: str, *, case_sensitive: bool) -> str | None:
    """The column as the schema spells it: an exact match first, else the only one that differs in
    case alone."""
    names = [f["name"] for f in schema["fields"]]
    if column in names or case_sensitive:
        return column if column in names else None
    alike = [name for name in names if name.lower() == column.lower()]
    return alike[0] if len(alike) == 1 else None


def column_fault(
    schema: Schema, part: KeyColumn, column: str, *, case_sensitive: bool
) -> str | None:
    """Why `column` of rows with this schema cannot give this part of a key; None if it can.

    Floating numbers cannot: Spark groups 0.0 with -0.0, and texts of them differ.
    """
    spelled = named(schema, column, case_sensitive=case_sensitive)
    if spelled is None:
        return f"there is no column {column}"
    kind = next(f["type"] for f in schema["fields"] if f["name"] == spelled)
    text = kind if isinstance(kind, str) else kind["type"]
    if part.granule:
        fits = text in _TIMES or (text == "date" and part.granule not in MINUTES)
        return None if fits else f"{column} is {text}, which has no {part.granule}"
    if text in _TIMES and not part.buckets:
        return f"{column} is {text}: say one of {', '.join(GRANULES)}"
    if text in _WHOLE or text.startswith("decimal("):
        return None
    return f"{column} is {text}, of which no keys are made"


def key_parts(
    key: Sequence[KeyColumn], columns: Sequence[str], schema: Schema, *, case_sensitive: bool
) -> list[KeyPart]:
    """The parts of a key as tasks read them off rows of this schema, in which they are called
    `columns`."""
    return [
        {
            "name": part.column,
            "column": named(schema, column, case_sensitive=case_sensitive) or column,
            "granule": part.granule,
            "buckets": part.buckets,
        }
        for part, column in zip(key, columns, strict=True)
    ]

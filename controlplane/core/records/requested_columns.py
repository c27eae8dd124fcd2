"""The columns that a reader names: `columns=carrier,delay`, or `` `a,b` `` for a name with a
comma."""

from __future__ import annotations

import re
from collections.abc import Iterable

from controlplane.core.errors import BadColumns
from dataplane.contract.schemas import Schema, column_names

_NAME = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^,`]+?))\s*(?:,|$)")


def names_of(texts: Iterable[str]) -> tuple[str, ...]:
    """Names in lists that are divided by commas. Raises BadColumns."""
    names: list[str] = []
    for text in texts:
        at = 0
        while at < len(text):
            name = _NAME.match(text, at)
            if name is None:
                raise BadColumns(
                    f"{text[:100]!r} is no list of columns; write names with commas between them"
                )
            names.append(name[1].replace("``", "`") if name[1] else name[2])
            at = name.end()
    return tuple(names)


def chosen(schema: Schema, names: tuple[str, ...]) -> tuple[str, ...]:
    """Columns as the schema spells them, in the order of `names`; all where none is named. Raises
    BadColumns."""
    have = column_names(schema)
    if not names:
        return have
    columns = tuple(_spelled(name, have) for name in names)
    if len(set(columns)) < len(columns):
        raise BadColumns(f"a column is named twice in {', '.join(names)[:200]}")
    return columns


def _spelled(name: str, have: tuple[str, ...]) -> str:
    alike = [column for column in have if column == name] or [
        column for column in have if column.lower() == name.lower()
    ]
    if len(alike) != 1:
        rest = ", ..." if len(have) > 20 else ""
        raise BadColumns(f"there is no column {name[:100]}; there are {', '.join(have[:20])}{rest}")
    return alike[0]

"""Contracts of feeds: whether columns are as they were promised. Columns may be added; none goes,
or changes its type. A contract may be changed to another one that promises more: further columns,
and types that hold all values of before.
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.core.schema.ddl_schemas import types
from dataplane.contract.joins import grow
from dataplane.contract.schemas import Schema
from dataplane.contract.types import in_words


def breaches(contract: Schema, actual: Schema) -> tuple[str, ...]:
    """What of the contract does not hold, a sentence for each column; empty if it is kept. Names
    are compared as they are written."""
    return tuple(_breaches(contract, actual))


def broken_promises(contract: Schema, changed: Schema) -> tuple[str, ...]:
    """The promises to readers that a changed contract would break, a sentence for each column;
    empty if it promises no less."""
    return tuple(_broken_promises(contract, changed))


def _broken_promises(contract: Schema, changed: Schema) -> Iterator[str]:
    there = types(changed)
    for name, promised in types(contract).items():
        if name not in there:
            yield f"column {name} would go"
        elif grow(name, promised, there[name], is_text=False) != (there[name], ()):
            yield f"column {name} would be {in_words(there[name])}, which does not hold all of {in_words(promised)}"


def _breaches(contract: Schema, actual: Schema) -> Iterator[str]:
    there = types(actual)
    for name, promised in types(contract).items():
        if name not in there:
            yield f"column {name} is gone"
        elif there[name] != promised:
            yield f"column {name} is {in_words(there[name])} and was promised as {in_words(promised)}"

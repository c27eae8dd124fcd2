"""Contracts of feeds: whether columns are as they were promised. Columns may be added; none goes, or changes its type.

Does not belong here: which state is offered (`operations.feeds`).
"""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.core.schema.schemas import types
from controlplane.core.schema.widening import in_words
from dataplane.contract.schemas import Schema


def breaches(contract: Schema, found: Schema) -> tuple[str, ...]:
    """What of the contract does not hold, a sentence for each column; empty if it is kept. Names are compared as they
    are written."""
    return tuple(_breaches(contract, found))


def _breaches(contract: Schema, found: Schema) -> Iterator[str]:
    there = types(found)
    for name, promised in types(contract).items():
        if name not in there:
            yield f"column {name} is gone"
        elif there[name] != promised:
            yield f"column {name} is {in_words(there[name])} and was promised as {in_words(promised)}"

"""Where the pinned schema of a read component is wider than its source objects, or lacks a column
without any value.

A column is reported if objects no longer have it, or if its type became wider for objects that are
gone. Others that came later may need the type; inferring it again shows whether they do. Types of
the first listing have no such cause, and those of a batch of more partitions than are planned at
once have none that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.core.compile.nodes import Source
from controlplane.core.model.pins import Pin, Widening
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.schema.ddl_schemas import own_columns, types
from controlplane.ports.store import Tx
from dataplane.contract.source_objects import NESTED

_REMEDY = "`headgate refresh --schema` infers it again"


def of_sources(tx: Tx, branch: str, nodes: Iterable[Source]) -> dict[str, list[str]]:
    """Sentences by dataset, for the sources that have such a finding."""
    inferred = [node for node in nodes if node.declared is None and not node.output]
    if not inferred:
        return {}
    pins = tx.states.pinned_schemas(branch, [node.dataset for node in inferred])
    listings = tx.listings.get(node.listing for node in inferred)
    by_source: dict[str, list[str]] = {}
    for node in inferred:
        pin, listing = pins.get(node.dataset), listings.get(node.listing)
        if pin is not None and listing is not None and listing.root is not None:
            problems = [
                *_vanished(node, pin, listing),
                *_widened(tx, pin, listing),
                *_empty(pin, listing),
            ]
            if problems:
                by_source[node.dataset] = problems
    return by_source


def _vanished(node: Source, pin: Pin, listing: Listing) -> Iterable[str]:
    """Columns that no object has. None where there are too many kinds of objects, or where the
    columns of one are unknown."""
    if not listing.all_columns or not listing.columns or None in listing.columns:
        return
    kinds = (
        own_columns(list(kind or ()), pin.schema, positional=node.positional)
        for kind in listing.columns
    )
    present = {name for names in kinds for name in names}
    for name in types(pin.schema):
        if name not in present:
            yield f"no object has the column {name} any more; {_REMEDY}"


def _widened(tx: Tx, pin: Pin, listing: Listing) -> Iterable[str]:
    keys = sorted({key for widening in pin.widened for key, _ in widening.causes})
    present = tx.listings.partitions(listing.id, keys) if keys else {}
    for widening in pin.widened:
        if not any(_is_there(key, source, present) for key, source in widening.causes):
            cause = f"because of {_named(widening)}, which {_verb(widening)} gone"
            yield f"{widening.column} is {widening.after} {cause}; it was {widening.before}; {_REMEDY}"


def _empty(pin: Pin, listing: Listing) -> Iterable[str]:
    """Columns that were seen, and that no object had a value of."""
    present = {name for kind in listing.columns for name in kind or () if NESTED not in name}
    for name in pin.history.places if pin.history else ():
        if name in present and name not in types(pin.schema):
            column = name if name.isidentifier() else f"`{name}`"
            remedy = f"declare its type to have it now, for example `schema: {column} STRING`"
            yield f"no object has a value in the column {name}, so it is left out until one has; {remedy}"


def _is_there(key: str, source: bytes, present: Mapping[str, SourcePartition]) -> bool:
    return key in present and present[key].source == source


def _named(widening: Widening) -> str:
    return ", ".join(key or "the source" for key, _ in widening.causes)


def _verb(widening: Widening) -> str:
    return "is" if len(widening.causes) == 1 else "are"

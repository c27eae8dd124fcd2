"""Inferred schemas that an operator takes back: the next listing is looked at as if it were the first.

Does not belong here: inference, and pins of logic (`pins`).
"""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.core.compile.nodes import Desired, Source
from controlplane.core.errors import NothingPinned
from controlplane.core.model.pins import TAKEN_BACK
from controlplane.ports.store import Tx


def take_back(tx: Tx, branch: str, nodes: Desired, chosen: Iterable[str]) -> list[str]:
    """The datasets whose columns are to be inferred anew. Raises NothingPinned where there is none."""
    sources = [name for name in chosen if _is_inferred(nodes, name)]
    pins = tx.pinned_schemas(branch, sources)
    for dataset, pin in sorted(pins.items()):
        tx.pin_schema(branch, dataset, pin._replace(settings=TAKEN_BACK))
        tx.drop_building(branch, dataset)
    tx.drop_begun(branch, sorted(pins))
    if not pins:
        message = "none of these datasets has an inferred schema: only read components without `schema:` have one"
        raise NothingPinned(f"{message}, once they have been read")
    return sorted(pins)


def _is_inferred(nodes: Desired, dataset: str) -> bool:
    node = nodes.nodes[dataset]
    return isinstance(node, Source) and node.declared is None and not node.output and node.feed is None

"""How late listings are: behind the period that their component asks for, or never done since it was declared.

Does not belong here: when to list (listings).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.core.compile.nodes import Source, is_paused
from controlplane.core.model.answers import ListingLateness
from controlplane.core.model.sources import Listing
from controlplane.operations.inspect import views
from controlplane.ports.store import Tx


def of_sources(
    tx: Tx, branch: str, nodes: Iterable[Source], declared: Mapping[str, float]
) -> dict[str, ListingLateness]:
    """By dataset: when its location was last listed, when it is due, since when a worker is at it, and how many seconds
    it is behind; `declared` is when each dataflow's revision came. Nothing is late that is paused, or listed on request
    only."""
    sources = list(nodes)
    if not sources:
        return {}
    known, paused, now = tx.listings(n.listing for n in sources), tx.paused(branch), tx.now()
    began = {a.dataset: a.at for a in tx.attempts().values() if a.kind == "list"}
    found: dict[str, ListingLateness] = {}
    for node in sources:
        due = None if is_paused(node, paused) else _due(node, known.get(node.listing), declared)
        found[node.dataset] = {
            "at": views.when(known[node.listing].at) if node.listing in known else None,
            "due": views.when(due),
            "since": views.when(began.get(node.dataset)),
            "refresh_s": node.read.refresh_s,
            "behind_s": 0.0 if due is None else round(max(0.0, now - due), 3),
        }
    return found


def _due(node: Source, listing: Listing | None, declared: Mapping[str, float]) -> float | None:
    if listing is None or listing.at is None:
        return declared.get(node.dataset.partition(".")[0])
    return None if node.read.refresh_s is None else listing.at + node.read.refresh_s

"""How late listings are: behind the period of their component, or never done since it was
declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.core.compile.nodes import Source, is_paused
from controlplane.core.model.answers import ListingLateness
from controlplane.core.model.sources import Listing
from controlplane.operations.inspect import json_views
from controlplane.operations.planning.pinned import is_pinned
from controlplane.operations.work import long_polls
from controlplane.ports.store import Tx


def of_sources(
    tx: Tx, branch: str, nodes: Iterable[Source], declared: Mapping[str, float]
) -> dict[str, ListingLateness]:
    """By dataset: when its location was last listed, when it is due, since when a worker is listing
    it, and how many seconds it is behind. `declared` is when each dataflow's revision came. A
    source that is not to be listed is never late: paused, listed on request only, or the output of
    another component, and all that a pinned branch reads."""
    sources = list(nodes)
    if not sources:
        return {}
    listings, paused, now = (
        tx.listings.get(n.listing for n in sources),
        tx.blueprints.paused(branch),
        tx.now(),
    )
    is_listed = not is_pinned(tx, branch)
    began = {a.dataset: a.at for a in tx.queue.attempts().values() if a.kind == "list"}
    by_dataset: dict[str, ListingLateness] = {}
    for node in sources:
        is_expected = is_listed and not node.output and not is_paused(node, paused)
        due = _due(node, listings.get(node.listing), declared) if is_expected else None
        by_dataset[node.dataset] = {
            "at": json_views.when(listings[node.listing].at) if node.listing in listings else None,
            "due": json_views.when(due),
            "since": json_views.when(began.get(node.dataset)),
            "refresh_s": node.read.refresh_s,
            "behind_s": 0.0 if due is None else round(max(0.0, now - due), 3),
        }
        if node.read.cron is not None:
            by_dataset[node.dataset]["cron"] = node.read.cron
    return by_dataset


def _due(node: Source, listing: Listing | None, declared: Mapping[str, float]) -> float | None:
    if listing is None or listing.at is None:
        return declared.get(node.dataset.partition(".")[0])
    if (scheduled := node.due_after(listing.at)) is not None:
        return scheduled
    expected_s = long_polls.expected_s(node.read)
    return None if expected_s is None else listing.at + expected_s

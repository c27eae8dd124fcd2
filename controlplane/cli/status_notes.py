"""Lines below the datasets of a `status`: wider columns, broken contracts, overdue datasets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.core.model.answers import DatasetStatus


def notes(datasets: Iterable[DatasetStatus]) -> Iterator[str]:
    for dataset in datasets:
        for sentence in dataset.get("wider", ()):
            yield f"schema: {dataset['name']}: {sentence}"
        for feed in dataset.get("feeds", ()):
            if feed["breaches"]:
                broken = "; ".join(feed["breaches"])
                yield f"feed: {dataset['name']} breaks the contract of feed {feed['name']}: {broken}"
        if (fresh := dataset.get("freshness")) and fresh["late"]:
            yield f"overdue: {dataset['name']}: {fresh['reason']}"

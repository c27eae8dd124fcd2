"""Datasets whose newest data is older than they expect: the condition `old`, and events when it
begins and ends.

The alert is stored even where no channel is configured: it records that the event was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from controlplane.core.alerts import Key, News
from controlplane.core.model.alerts import Alert
from controlplane.core.model.answers import DatasetFreshness
from controlplane.core.model.events import Event

LATE, FRESH = "dataset.late", "dataset.fresh"


def late_datasets(by_dataset: Mapping[str, DatasetFreshness]) -> dict[Key, str]:
    """Conditions that hold, with more in words."""
    return {
        (name, "old"): freshness["reason"] or ""
        for name, freshness in by_dataset.items()
        if freshness["late"]
    }


def events(
    branch: str, alerts: Iterable[Alert], news: News, freshness: Mapping[str, DatasetFreshness]
) -> list[Event]:
    """Events of the datasets that have become late or fresh. A dataset without a limit becomes
    neither."""
    before = _late(alerts)
    after = (before | _late(news.changed)) - _over(news.changed) - _late(news.forgotten)
    changed = sorted((before ^ after) & freshness.keys())
    return [
        _event(branch, name, LATE if name in after else FRESH, freshness[name]) for name in changed
    ]


def _late(alerts: Iterable[Alert]) -> set[str]:
    return {alert.dataset for alert in alerts if alert.condition == "old" and alert.ended is None}


def _over(alerts: Iterable[Alert]) -> set[str]:
    return {
        alert.dataset for alert in alerts if alert.condition == "old" and alert.ended is not None
    }


def _event(branch: str, dataset: str, kind: str, freshness: DatasetFreshness) -> Event:
    body = {"age_s": freshness["age_s"], "limit_s": freshness["limit_s"]}
    return Event(kind, dataset, 1, body, branch=branch)

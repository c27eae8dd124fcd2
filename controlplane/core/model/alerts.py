"""Alerts: conditions of datasets that are reported to people, channels, and messages on their
way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from controlplane.core.model.answers.datasets import TrendMeasure
from dataplane.contract.jobs import AlertItem, ChannelKind
from dataplane.contract.results import TaskError

# One Literal, not a union of two: a stored field of a union is JSON
Condition: TypeAlias = Literal[
    "failed",
    "late",
    "old",
    "blocked",
    "accept-deletes",
    "rows-jump",
    "run_time-jump",
    "cost-jump",
    "interval-jump",
]
Occasion: TypeAlias = Literal["failed", "late", "blocked", "accept-deletes", "recovered", "jump"]
# Of the key `on`. A jump is reported where a channel has `jumps`
OCCASIONS: tuple[Occasion, ...] = ("failed", "late", "blocked", "accept-deletes", "recovered")
MEASURE_OF: Mapping[Condition, TrendMeasure] = {
    "rows-jump": "rows",
    "run_time-jump": "run_time",
    "cost-jump": "cost",
    "interval-jump": "interval",
}
OCCASION_OF: Mapping[Condition, Occasion] = {  # under which it is reported
    "failed": "failed",
    "late": "late",  # its listing is behind, or a stream's rows wait
    "old": "late",  # its newest data is older than `freshness` allows
    "blocked": "blocked",
    "accept-deletes": "accept-deletes",
    "rows-jump": "jump",  # the measure of its newest generation is far from its history
    "run_time-jump": "jump",
    "cost-jump": "jump",
    "interval-jump": "jump",
}
AFTER_S = 600.0  # for which a dataset is late or blocked before it is reported, by default


@dataclass(frozen=True, slots=True)
class Channel:
    """Where to send alerts, and for which occasions. `settings`: what its kind needs, as it is
    written; secrets by reference.

    `after_s` holds for `late` and `blocked`: others are sent at once. `jumps`: measures whose jumps
    are reported. `datasets`: the only ones that are reported, with or without their dataflow; all
    where it is empty.
    """

    to: ChannelKind
    on: tuple[Occasion, ...] = OCCASIONS
    after_s: float = AFTER_S
    settings: tuple[tuple[str, str | tuple[str, ...]], ...] = ()
    jumps: tuple[TrendMeasure, ...] = ()
    datasets: tuple[str, ...] = ()

    def covers(self, dataset: str) -> bool:
        """Whether the channel reports this dataset, `dataflow.dataset`."""
        if not self.datasets:
            return True
        return dataset in self.datasets or dataset.partition(".")[2] in self.datasets

    @property
    def place(self) -> str:
        """As messages for people show it: never the value of a secret."""
        settings = dict(self.settings)
        shown = settings.get("url") or settings.get("address") or settings.get("command") or ""
        return shown if isinstance(shown, str) else " ".join(shown)


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition of a dataset. `notified`: ids of the channels that got it; `ended`: since when it
    is over."""

    branch: str
    dataset: str
    condition: Condition
    since: float
    text: str
    notified: tuple[str, ...] = ()
    ended: float | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.dataset, self.condition

    @property
    def occasion(self) -> Occasion:
        """The occasion under which it is reported."""
        return OCCASION_OF[self.condition]


@dataclass(frozen=True, slots=True)
class Message:
    """News for one channel about one dataflow, until it is acknowledged. `tries` have failed so
    far.

    `task`: the task that is sending it at present.
    """

    id: str
    branch: str
    dataflow: str
    channel: str
    items: tuple[AlertItem, ...]
    due: float
    tries: int = 0
    task: bytes | None = None
    error: TaskError | None = None

"""When to report a condition, and on which channels: conditions begin, last and end. Pure.

    seen now, not known     the condition begins
    known and seen          it lasts; each channel gets it once, when it has lasted long enough for it
    known, not seen         it is over: no channel was notified -> forgotten; else, after it stayed away for a while,
                            `recovered` is sent and it is forgotten. One that comes back meanwhile
                            is the same one

So a condition that comes and goes is reported once. A jump has no `recovered`. A jump that begins
AWAY_S or more after the jump before it is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeAlias

from controlplane.core.model.alerts import MEASURE_OF, Alert, Channel, Condition, Message
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import AlertItem, AlertMessage

AWAY_S = 60.0  # for which a condition stays away before `recovered` is sent
GATHER_S = 5.0  # in which news for one channel about one dataflow become one message
# Before a message that was not taken is sent again; the last one for ever
DELAYS_S = (10.0, 60.0, 300.0, 900.0, 3600.0)
MOST_ITEMS = 1_000  # of one message
LASTING: tuple[Condition, ...] = ("late", "old", "blocked")  # reported after a while only

Key: TypeAlias = tuple[str, Condition]  # of a dataset
Seen: TypeAlias = Mapping[Key, str]  # conditions that hold now, with more in words
Channels: TypeAlias = Mapping[str, Channel]  # by id
BeganAt: TypeAlias = Mapping[Key, float]  # when conditions began, where that is certain
NO_TIMES: BeganAt = {}


@dataclass(slots=True)
class News:
    """The result of one evaluation: alerts to keep and to forget, and the news by channel and
    dataflow."""

    changed: list[Alert] = field(default_factory=list)
    forgotten: list[Alert] = field(default_factory=list)
    items: dict[tuple[str, str], list[AlertItem]] = field(default_factory=dict)

    def add(self, channel: str, item: AlertItem) -> None:
        flow = item["dataset"].partition(".")[0]
        self.items.setdefault((channel, flow), []).append(item)


def channel_id(dataflow: str, channel: Channel) -> str:
    """The id of a dataflow's channel; the installation's channels have no dataflow. An edit makes
    it another one."""
    settings = {
        name: list(value) if isinstance(value, tuple) else value for name, value in channel.settings
    }
    # Keys that a channel does not have leave its id as it was before there were such keys
    narrowed = {"jumps": list(channel.jumps), "datasets": list(channel.datasets)}
    settings_digest = digest(
        "channel/1",
        of=dataflow,
        to=channel.to,
        on=list(channel.on),
        after=int(channel.after_s),
        settings=settings,
        **{key: names for key, names in narrowed.items() if names},
    )
    return settings_digest.hex()[:16]


def look(
    branch: str,
    present: Iterable[Alert],
    conditions: Seen,
    channels_of: Mapping[str, Channels],
    now: float,
    began_at: BeganAt = NO_TIMES,
) -> News:
    """What changed since the last look. `channels_of`: by dataflow."""
    news, alerts = News(), {alert.key: alert for alert in present}
    for (dataset, condition), text in conditions.items():
        since = began_at.get((dataset, condition))
        before = alerts.pop((dataset, condition), None)
        if before is not None and since is not None and since - before.since >= AWAY_S:
            before = None
        alert = before or Alert(branch, dataset, condition, now if since is None else since, text)
        after = _notified(
            replace(alert, ended=None), text, _channels(channels_of, dataset), now, news
        )
        if after != before:
            news.changed.append(after)
    for alert in alerts.values():
        _away(alert, _channels(channels_of, alert.dataset), now, news)
    return news


def _channels(channels_of: Mapping[str, Channels], dataset: str) -> Channels:
    return channels_of.get(dataset.partition(".")[0], {})


def _notified(alert: Alert, text: str, channels: Channels, now: float, news: News) -> Alert:
    """Add news for the channels on which the alert is due by now."""
    for id, channel in channels.items():
        if id not in alert.notified and _is_due(alert, channel, now):
            news.add(id, _item(alert, alert.occasion, text))
            alert = replace(alert, notified=(*alert.notified, id))
    return alert


def _is_due(alert: Alert, channel: Channel, now: float) -> bool:
    if not channel.covers(alert.dataset):
        return False
    if alert.condition in MEASURE_OF:
        return MEASURE_OF[alert.condition] in channel.jumps
    if alert.occasion not in channel.on:
        return False
    return alert.condition not in LASTING or now - alert.since >= channel.after_s


def _away(alert: Alert, channels: Channels, now: float, news: News) -> None:
    """A condition that does not hold."""
    if not alert.notified:
        news.forgotten.append(alert)
    elif alert.ended is None:
        news.changed.append(replace(alert, ended=now))
    elif now - alert.ended >= AWAY_S:
        if alert.condition not in MEASURE_OF:
            _add_recovered(alert, channels, alert.ended, news)
        news.forgotten.append(alert)


def _add_recovered(alert: Alert, channels: Channels, ended: float, news: News) -> None:
    for id in alert.notified:
        if id in channels and "recovered" in channels[id].on:
            text = f"it was {alert.occasion}: {alert.text}"
            news.add(id, _item(alert, "recovered", text, ended))


def _item(alert: Alert, occasion: str, text: str, since: float | None = None) -> AlertItem:
    at = alert.since if since is None else since
    return {"dataset": alert.dataset, "occasion": occasion, "since": instant(at), "text": text}


def instant(at: float) -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")


# --- messages -------------------------------------------------------------------------------------


def gathered(message: Message, items: Sequence[AlertItem]) -> Message:
    """The message with more items, where it was not sent yet."""
    return replace(message, items=(*message.items, *items)[:MOST_ITEMS])


def is_open(message: Message) -> bool:
    """No attempt to send it was made."""
    return message.task is None and message.tries == 0


def again(message: Message, now: float) -> Message:
    """The message, which was not taken, to be sent later."""
    delay = DELAYS_S[min(message.tries, len(DELAYS_S) - 1)]
    return replace(message, tries=message.tries + 1, task=None, due=now + delay)


def content(message: Message, now: float) -> AlertMessage:
    """What a receiver is sent."""
    return {
        "id": message.id,
        "branch": message.branch,
        "dataflow": message.dataflow,
        "at": instant(now),
        "summary": summary(message.dataflow, message.items),
        "items": list(message.items),
    }


def summary(dataflow: str, items: Sequence[AlertItem]) -> str:
    """`shop: 2 failed, 1 recovered`."""
    counts: dict[str, int] = {}
    for item in items:
        counts[item["occasion"]] = counts.get(item["occasion"], 0) + 1
    listed = ", ".join(f"{count} {occasion}" for occasion, count in counts.items())
    if len(items) == 1:
        return f"{items[0]['dataset']}: {items[0]['occasion']}"
    return f"{dataflow}: {listed}"

"""When channels are told of what."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias, cast

from controlplane.core.alerts import (
    AWAY_S,
    DELAYS_S,
    MOST_ITEMS,
    News,
    again,
    channel_id,
    gathered,
    is_open,
    look,
    summary,
)
from controlplane.core.model.alerts import OCCASIONS, Alert, Channel, Condition, Message, Occasion
from dataplane.contract.jobs import AlertItem

HOOK = Channel("webhook", settings=(("url", "https://example.com"),))
TOTAL, ERROR = "shop.total", "no number"
Told: TypeAlias = list[tuple[str, str]]


class Telling:
    """What one channel is told over time."""

    def __init__(self, *on: Occasion) -> None:
        self.channels = {"shop": {"hook": Channel("webhook", on or OCCASIONS, after_s=600.0)}}
        self.known: dict[tuple[str, str], Alert] = {}

    def at(self, now: float, *seen: str, dataset: str = TOTAL) -> Told:
        conditions = {(dataset, cast("Condition", s)): ERROR for s in seen}
        news = look("main", self.known.values(), conditions, self.channels, now)
        self.known.update((alert.key, alert) for alert in news.changed)
        for alert in news.forgotten:
            del self.known[alert.key]
        return told(news)


def told(news: News) -> Told:
    return [(item["dataset"], item["occasion"]) for items in news.items.values() for item in items]


def test_a_failure_is_told_once_and_its_end_after_it_stayed_away() -> None:
    telling = Telling()
    assert telling.at(0.0, "failed") == [(TOTAL, "failed")]
    assert telling.at(1.0, "failed") == []
    assert telling.at(2.0) == []
    assert telling.at(2.0 + AWAY_S) == [(TOTAL, "recovered")]
    assert telling.known == {}


def test_what_comes_and_goes_is_told_once() -> None:
    telling = Telling()
    telling.at(0.0, "failed")
    for moment in range(1, 10):
        assert telling.at(moment * 10.0, *(["failed"] if moment % 2 else [])) == []
    for later in (100.0, 101.0, 130.0):
        assert telling.at(later) == []
    assert telling.at(100.0 + AWAY_S) == [(TOTAL, "recovered")]


def test_what_is_blocked_is_told_after_a_while_and_its_end_only_if_it_was_told() -> None:
    telling = Telling()
    assert telling.at(0.0, "blocked") == []
    assert telling.at(599.0, "blocked") == []
    assert telling.at(599.5) == []
    assert telling.known == {}, "it was short, and nobody hears of it"
    telling.at(1_000.0, "blocked")
    assert telling.at(1_600.0, "blocked") == [(TOTAL, "blocked")]


def test_a_channel_is_told_what_it_asks_for() -> None:
    telling = Telling("recovered", "accept-deletes")
    assert telling.at(0.0, "failed", "accept-deletes") == [(TOTAL, "accept-deletes")]
    telling.at(1.0)
    assert telling.at(1.0 + AWAY_S) == [(TOTAL, "recovered")]


def test_an_end_is_told_to_channels_that_ask_for_it_alone() -> None:
    telling = Telling("failed")
    assert telling.at(0.0, "failed") == [(TOTAL, "failed")]
    telling.at(1.0)
    assert telling.at(1.0 + AWAY_S) == []
    assert telling.known == {}


def test_a_channel_that_comes_later_is_told_what_still_holds() -> None:
    telling = Telling()
    telling.at(0.0, "failed")
    telling.channels["shop"]["mail"] = HOOK
    assert telling.at(1.0, "failed") == [(TOTAL, "failed")]


def test_an_edit_of_a_channel_makes_it_another_one() -> None:
    edited = Channel("webhook", ("failed",), settings=HOOK.settings)
    assert len({channel_id("shop", HOOK), channel_id("shop", edited), channel_id("", HOOK)}) == 3


def test_a_message_that_is_not_taken_is_sent_again_after_a_while_that_grows() -> None:
    message, waits = Message("m", "main", "shop", "hook", (), due=0.0), []
    for _ in range(7):
        after = again(message, message.due)
        waits.append(after.due - message.due)
        message = after
    assert waits == [*DELAYS_S, DELAYS_S[-1], DELAYS_S[-1]]


def test_a_waiting_message_gathers_two_occasions_of_one_dataset() -> None:
    failed: AlertItem = {"dataset": TOTAL, "occasion": "failed", "since": "", "text": ""}
    recovered: AlertItem = {**failed, "occasion": "recovered"}
    message = Message("m", "main", "shop", "hook", (failed,), due=0.0)
    assert gathered(message, [recovered, failed]).items == (failed, recovered, failed)


def test_a_waiting_message_is_bounded() -> None:
    items: list[AlertItem] = [
        {"dataset": f"shop.d{n}", "occasion": "failed", "since": "", "text": ""}
        for n in range(MOST_ITEMS)
    ]
    message = Message("m", "main", "shop", "hook", tuple(items[:1]), due=0.0)
    assert gathered(message, items[1:]).items == tuple(items)
    assert gathered(message, items).items == (items[0], *items[:-1])


def test_only_a_message_that_no_task_sends_gathers_more() -> None:
    message = Message("m", "main", "shop", "hook", (), due=0.0)
    assert is_open(message)
    assert not is_open(replace(message, task=b"task"))
    assert not is_open(again(message, 0.0))


def test_a_summary_counts_what_is_told() -> None:
    failed: AlertItem = {"dataset": TOTAL, "occasion": "failed", "since": "", "text": ""}
    late: AlertItem = {"dataset": TOTAL, "occasion": "late", "since": "", "text": ""}
    assert summary("shop", [failed]) == "shop.total: failed"
    assert summary("shop", [failed, failed, late]) == "shop: 2 failed, 1 late"

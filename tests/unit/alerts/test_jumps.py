"""Jumps of trends: reported on request, once each, and with the figures of the dataset's page."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.alerts import AWAY_S, Key, News, channel_id, look
from controlplane.core.model.alerts import Alert, Channel
from controlplane.core.model.answers.datasets import MeasuredGeneration, TrendPoint
from controlplane.operations.alerts import outbox
from controlplane.operations.alerts.jumps import JUMPED, REPORTED_FOR_S, last_jump
from controlplane.operations.alerts.watch import Watch
from controlplane.operations.inspect import datasets, trends
from controlplane.operations.planning.planner import Planner
from controlplane.ports.store import Tx
from tests.unit.expectations.world import BRANCH, World

HOOK = "notify:\n  - {to: webhook, url: https://example.com/hook, jumps: [rows]%s}\n"
ROWS_JUMP = "rows of generation 6: 30, usual 3"


class WatchedWorld:
    """A dataset whose generations have three rows each, and the alerts about it."""

    def __init__(self, home: Path) -> None:
        self.world = World(home)
        self.messages: dict[tuple[str, int], tuple[str, str]] = {}
        self.generation = 0
        self.restart()

    def restart(self) -> None:
        planner = Planner(self.world.store, branch=BRANCH)
        self.watch = Watch(self.world.ctx, BRANCH, planner, ())

    def commit(self, *counts: int, is_watched: bool = True) -> None:
        """A generation with so many rows for each count, other rows each time."""
        for count in counts:
            self.generation += 1
            self.world.put("a.csv", *((key, self.generation) for key in range(count)))
            self.world.settle()
            if is_watched:
                self.look()

    def look(self, later_s: float = 0.0) -> None:
        self.world.now += later_s
        self.watch.step()
        with self.world.store.read() as tx:
            for message in tx.alerts.messages(BRANCH):
                for number, item in enumerate(message.items):
                    self.messages[message.id, number] = item["occasion"], item["text"]

    @property
    def jumps(self) -> list[str]:
        return [text for occasion, text in self.messages.values() if occasion == "jump"]

    @property
    def events(self) -> list[object]:
        with self.world.store.read() as tx:
            return [event.body for event in tx.events.newer(BRANCH, 0) if event.kind == JUMPED]


@pytest.fixture
def watched(tmp_path: Path) -> WatchedWorld:
    return WatchedWorld(tmp_path)


def test_a_jump_is_reported_once_with_the_figures_of_the_page(watched: WatchedWorld) -> None:
    watched.world.apply(HOOK % "")
    watched.commit(3, 3, 3, 3, 3)
    assert watched.jumps == [], "a first history has no jumps"
    watched.commit(30, 30)
    for _ in range(3):
        watched.restart()
        watched.look(AWAY_S)
    assert watched.jumps == [ROWS_JUMP]
    assert watched.events == [{"measure": "rows", "text": ROWS_JUMP}]
    watched.commit(3)
    watched.look(AWAY_S)
    watched.look(AWAY_S)
    assert "recovered" not in {occasion for occasion, _ in watched.messages.values()}
    watched.commit(60)
    assert watched.jumps == [ROWS_JUMP, "rows of generation 9: 60, usual 3"]
    history = datasets.history(
        watched.world.ctx, BRANCH, "shop.orders", before=None, limit=trends.GENERATIONS
    )
    (rows,) = [t for t in trends.of_generations(history["items"]) if t["measure"] == "rows"]
    marks = [point["generation"] for point in rows["points"] if point["is_jump"]]
    assert marks == [6, 7, 9], "generations 6 and 7 are one jump"


def test_a_jump_between_two_looks_is_reported(watched: WatchedWorld) -> None:
    watched.world.apply(HOOK % "")
    watched.commit(3, 3, 3, 3, 3)
    watched.commit(30, 3, is_watched=False)
    watched.look()
    assert watched.jumps == [ROWS_JUMP]


def test_a_jump_before_a_restart_is_reported_once(watched: WatchedWorld) -> None:
    watched.world.apply(HOOK % "")
    watched.commit(3, 3, 3, 3, 3)
    watched.commit(30, 3, is_watched=False)
    for _ in range(4):
        watched.restart()
        watched.look(AWAY_S)
    assert watched.jumps == [ROWS_JUMP]
    assert len(watched.events) == 1


def test_a_jump_is_reported_after_a_transaction_that_failed(
    watched: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.world.apply(HOOK % "")
    watched.commit(3, 3, 3, 3, 3)
    watched.commit(30, 3, is_watched=False)
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "record", _failing)
        with pytest.raises(ConnectionError):
            watched.look()
    watched.look()
    assert watched.jumps == [ROWS_JUMP]


def _failing(*_: object) -> None:
    raise ConnectionError


def test_another_jump_is_reported_while_the_alert_of_the_first_one_is_kept(
    watched: WatchedWorld,
) -> None:
    watched.world.apply(HOOK % "")
    watched.commit(3, 3, 3, 3, 3, 30, 3, 40)
    assert watched.jumps == [ROWS_JUMP, "rows of generation 8: 40, usual 3"]
    assert len(watched.events) == 2


def test_jumps_of_one_minute_are_one_alert() -> None:
    hook = Channel("webhook", jumps=("rows",))
    key: Key = ("shop.orders", "rows-jump")

    def reported(alerts: list[Alert], began_at: float) -> News:
        return look("main", alerts, {key: ""}, {"shop": {"hook": hook}}, 900.0, {key: began_at})

    first = reported([], 100.0)
    assert [alert.since for alert in first.changed] == [100.0]
    assert not reported(first.changed, 100.0 + AWAY_S - 1).items
    second = reported(first.changed, 100.0 + AWAY_S)
    assert [alert.since for alert in second.changed] == [100.0 + AWAY_S]
    assert len(second.items) == 1


def test_history_is_read_for_jumps_and_new_generations_alone(
    watched: WatchedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []

    def read(_tx: Tx, _branch: str, name: str, _limit: int) -> list[MeasuredGeneration]:
        reads.append(name)
        return []

    monkeypatch.setattr(datasets, "measured_generations", read)
    watched.world.apply(HOOK.replace(", jumps: [rows]", "") % "")
    watched.commit(3)
    assert reads == [], "no channel asks for jumps"
    watched.world.apply(HOOK % "")
    watched.look()
    watched.look()
    assert reads == ["shop.orders"], "once for each generation"


def test_a_new_channel_reports_no_jumps_of_the_past(watched: WatchedWorld) -> None:
    watched.world.apply("")
    watched.commit(3, 3, 3, 3, 3, 30)
    watched.world.now += REPORTED_FOR_S
    watched.world.apply(HOOK % "")
    watched.look()
    watched.commit(30)
    assert watched.jumps == []


@pytest.mark.parametrize("options", [", jumps: [cost]", ", datasets: [other]"])
def test_a_channel_reports_the_measures_and_datasets_that_it_names(
    watched: WatchedWorld, options: str
) -> None:
    hook = (HOOK % options).replace("jumps: [rows], jumps", "jumps")
    other = "  other: {transform: {sql: SELECT * FROM orders WHERE k < 0}}\n"
    watched.world.apply(other + hook)
    watched.commit(3, 3, 3, 3, 3, 30)
    assert watched.jumps == []


@pytest.mark.parametrize(
    ("jumping", "generation", "first"),
    [
        ((), 5, None),
        ((6,), 5, 6),
        ((6,), 6, None),
        ((5, 6), 5, None),
        ((5, 6), 4, 5),
        ((4, 6), 5, 6),
        ((4,), 3, 4),
    ],
)
def test_generations_that_jump_one_after_the_other_are_one_jump(
    jumping: tuple[int, ...], generation: int, first: int | None
) -> None:
    points: list[TrendPoint] = [
        {"generation": n, "at": "", "amount": 1.0, "usual": 1.0, "is_jump": n in jumping}
        for n in range(1, 7)
    ]
    jump = last_jump(points, generation)
    assert (None if jump is None else jump["generation"]) == first


def test_a_channel_without_jumps_is_the_channel_that_it_was() -> None:
    hook = Channel("webhook", settings=(("url", "https://example.com"),))
    assert channel_id("shop", hook) == "d8a4cdbe34607f13"
    jumps = Channel("webhook", settings=hook.settings, jumps=("rows",))
    assert channel_id("shop", jumps) != channel_id("shop", hook)
    assert jumps.covers("shop.orders")
    narrow = Channel("webhook", datasets=("orders", "sales.total"))
    covered = [narrow.covers(name) for name in ("shop.orders", "sales.total", "shop.total")]
    assert covered == [True, True, False]
    failed: dict[Key, str] = {("shop.total", "failed"): "", ("shop.orders", "failed"): ""}
    news = look("main", [], failed, {"shop": {"hook": narrow}}, 0.0)
    assert [item["dataset"] for items in news.items.values() for item in items] == ["shop.orders"]

"""Datasets whose newest data is older than they expect: what is shown, and told once."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.cli import views, why_views
from controlplane.cli.output import View, show
from controlplane.core.alerts import AWAY_S, GATHER_S
from controlplane.core.model.events import Event
from controlplane.core.model.states import State
from controlplane.operations.alerts.ages import FRESH, LATE
from controlplane.operations.alerts.watch import Watch
from controlplane.operations.inspect import causes, data_age, json_views, overview
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import desired
from tests.unit.expectations.world import BRANCH, World

HOUR = 3600.0
FRESHNESS = "    freshness: 26h\n"
TOTAL = "  total:\n    transform: {sql: SELECT sum(v) AS v FROM orders}\n    freshness: 2h\n"
HOOK = (
    "notify:\n  - {to: webhook, url: https://example.com/hook, on: [late, recovered], after: 30m}\n"
)


class Place:
    """A world whose alerts are watched."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._told: dict[tuple[str, int], tuple[str, str]] = {}
        self.restart()

    def restart(self) -> None:
        self.watch = Watch(self.world.ctx, BRANCH, Planner(self.world.store, branch=BRANCH), ())

    def later(self, seconds: float) -> None:
        self.world.now += seconds
        self.watch.step()
        with self.world.store.read() as tx:
            for message in tx.alerts.messages(BRANCH):
                for number, item in enumerate(message.items):
                    self._told[message.id, number] = item["occasion"], item["text"]

    def told(self) -> list[tuple[str, str]]:
        """What channels are told of the age of data, in order; listings are behind here, too."""
        return [(occasion, text) for occasion, text in self._told.values() if "newest data" in text]

    def events(self) -> list[Event]:
        with self.world.store.read() as tx:
            return [event for event in tx.events.newer(BRANCH, 0) if event.kind in (LATE, FRESH)]

    def kinds(self, dataset: str = "shop.orders") -> list[str]:
        return [event.kind for event in self.events() if event.dataset == dataset]

    def state(self) -> State:
        with self.world.store.read() as tx:
            return tx.states.newest(BRANCH, ["shop.orders"])["shop.orders"]

    def since_commit(self, seconds: float) -> None:
        """Go to a time after the commit of orders."""
        self.world.now = self.state().at + seconds

    def fresh(self, dataset: str = "shop.orders") -> object:
        (flow,) = overview.status(self.world.ctx, BRANCH)["dataflows"]
        return next(one.get("freshness") for one in flow["datasets"] if one["name"] == dataset)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    world = World(tmp_path)
    world.put("a.csv", (1, 20))
    return Place(world)


def text(view: View) -> str:
    out = io.StringIO()
    show({}, view, "table", out)
    return out.getvalue()


def test_late_and_fresh_are_told_once_each_without_any_channel(place: Place) -> None:
    place.world.apply(FRESHNESS)
    place.world.settle()
    place.since_commit(26 * HOUR)
    place.later(0.0)
    assert place.kinds() == [], "it is as old as it may be"
    place.later(1.0)
    for _ in range(3):
        place.restart()
        place.later(60.0)
    assert place.kinds() == [LATE]
    place.world.put("b.csv", (2, 30))
    place.world.settle()
    for _ in range(3):
        place.later(AWAY_S)
        place.restart()
    assert place.kinds() == [LATE, FRESH]
    late, _ = place.events()
    assert late.body == {"age_s": 26 * HOUR + 1, "limit_s": 26 * HOUR}


def test_a_commit_that_changed_nothing_makes_no_data_newer(place: Place) -> None:
    place.world.apply(FRESHNESS)
    place.world.settle()
    place.world.put("a.csv", (1, 10))
    place.world.settle()
    place.world.put("a.csv", (1, 20))
    place.world.settle()
    before = place.state()
    place.later(20 * HOUR)
    # Other bytes, and the same rows
    (place.world.home / "orders" / "a.csv").write_text("k,v\n1,20")
    place.world.settle()
    after = place.state()
    assert (after.root, after.seq) == (before.root, before.seq + 1)
    place.since_commit(7 * HOUR)
    place.later(0.0)
    assert place.kinds() == [LATE]
    assert place.world.now - after.at < 26 * HOUR < place.world.now - before.at


@pytest.mark.parametrize("has_past", [False, True])
def test_many_commits_that_changed_nothing_are_looked_through(place: Place, has_past: bool) -> None:
    place.world.apply(FRESHNESS)
    place.world.settle()
    if has_past:
        place.world.put("a.csv", (1, 10))
        place.world.settle()
    first = place.state()
    assert first.generation == 1 + has_past
    for number in range(1, data_age.STATES_FIRST + 3):
        place.world.now += 60.0
        with place.world.store.begin() as tx:
            again = replace(first, seq=first.seq + number, at=place.world.now)
            tx.states.commit(again, again.seq - 1)
    with place.world.store.read() as tx:
        times = data_age.LastChanges().times(tx, BRANCH, {"shop.orders": place.state()})
    assert times == {"shop.orders": first.at}


def test_what_is_not_expected_any_more_becomes_neither(place: Place) -> None:
    place.world.apply(FRESHNESS)
    place.world.settle()
    place.later(30 * HOUR)
    place.world.apply("")
    for _ in range(2):
        place.later(60.0)
    assert place.kinds() == [LATE]
    with place.world.store.read() as tx:
        assert tx.alerts.all(BRANCH) == ()


def test_a_channel_hears_of_late_after_its_while_and_of_the_end(place: Place) -> None:
    place.world.apply(FRESHNESS + HOOK)
    place.world.settle()
    place.since_commit(27 * HOUR)
    place.later(0.0)
    assert place.told() == []
    place.later(1800.0)
    place.later(60.0)
    assert place.told() == [("late", "its newest data is 27 h 30 min old, more than 26 h")]
    place.world.put("b.csv", (2, 30))
    place.world.settle()
    for wait in (0.0, AWAY_S, GATHER_S):
        place.later(wait)
    assert [occasion for occasion, _ in place.told()] == ["late", "recovered"]
    assert place.kinds() == [LATE, FRESH]


def test_it_is_shown_in_status_and_in_why(place: Place) -> None:
    place.world.apply(FRESHNESS)
    place.world.settle()
    place.since_commit(3 * HOUR)
    found = {"limit_s": 26 * HOUR, "age_s": 3 * HOUR, "late": False, "reason": None}
    assert place.fresh() == {**found, "at": json_views.instant(place.state().at)}
    assert "newest data" not in text(views.status(overview.status(place.world.ctx, BRANCH)))
    place.since_commit(27 * HOUR)
    told = "its newest data is 27 h old, more than 26 h"
    status = overview.status(place.world.ctx, BRANCH)
    assert f"overdue: shop.orders: {told}\n" in text(views.status(status))
    assert status["dataflows"][0]["datasets"][0]["state"] == "stale", (
        "late is no state"
    )  # its table is not written here
    why = causes.why(place.world.ctx, BRANCH, "shop.orders")
    assert f"overdue: {told}\n" in text(why_views.why(why))


def test_a_dataset_without_data_is_measured_from_the_edit(place: Place) -> None:
    place.world.apply(TOTAL)
    assert place.fresh("shop.orders") is None
    place.later(2 * HOUR)
    assert place.kinds("shop.total") == []
    place.later(60.0)
    assert place.kinds("shop.total") == [LATE]
    told = "it has no data, 2 h 1 min after its dataflow was applied, which is more than 2 h"
    assert f"overdue: shop.total: {told}\n" in text(
        views.status(overview.status(place.world.ctx, BRANCH))
    )
    place.world.settle()
    place.later(0.0)
    assert place.kinds("shop.total") == [LATE, FRESH]


def test_it_is_part_of_no_identity(place: Place) -> None:
    place.world.apply("")
    before = _identity(place.world)
    place.world.settle()
    place.world.apply(FRESHNESS)
    assert _identity(place.world) == before
    assert place.world.settle() == {}


def _identity(world: World) -> list[object]:
    with world.store.read() as tx:
        nodes = desired(tx, BRANCH)
    return [
        getattr(nodes.nodes["shop.orders"], name)
        for name in ("logic", "lineage", "listing", "parse")
    ]


def test_a_pass_costs_no_statement_for_it(tmp_path: Path) -> None:
    """Neither without `freshness`, nor with it where nothing has changed."""
    place = Place(World(tmp_path))
    place.world.put("a.csv", (1, 20))
    place.world.apply("")
    place.world.settle()
    place.later(1.0)
    without = _statements(place)
    place.world.apply(FRESHNESS)
    place.world.settle()
    place.later(1.0)
    assert _statements(place) == without
    place.later(30 * HOUR)
    assert place.kinds() == [LATE]
    assert _statements(place) == without


def _statements(place: Place) -> int:
    before = place.world.store.statements
    place.later(1.0)
    return place.world.store.statements - before


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (45.0, "45 s"),
        (60.0, "1 min"),
        (60.4, "1 min 1 s"),
        (3600.0, "1 h"),
        (26 * HOUR, "26 h"),
        (26 * HOUR + 1, "26 h 1 min"),
        (7 * 24 * HOUR, "7 d"),
        (74 * HOUR, "3 d 2 h"),
    ],
)
def test_ages_in_words(seconds: float, words: str) -> None:
    assert data_age.in_words(seconds) == words

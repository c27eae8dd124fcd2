"""A stream is looked at again once what was found before is computed: else it would never be
whole."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from controlplane.core.errors import Fenced
from controlplane.core.model import driver_ends
from controlplane.core.model.scaling import PoolLimits, PoolShare
from controlplane.core.model.tasks import SIZES
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.inspect import overview, run_progress
from controlplane.operations.work import claims, listing_requests, reports
from controlplane.operations.work.long_polls import LONG_POLL_S, RETRY_S
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from dataplane.contract.claims import CONTRACT, Claim, ListClaim
from dataplane.contract.results import infrastructure_error
from dataplane.contract.schemas import Json, struct_of
from tests.property.engine import MemoryLake
from tests.stores import new_store
from tests.there import there
from tests.unit.listing.location import after, each, file, told
from tests.unit.reconciler.nowhere import Nowhere
from tests.unit.reconciler.test_reasons import Pool, driver

STREAM = """\
dataflow: stream
components:
  messages: {read: {connector: kafka, servers: "h:1", topic: t, schema: n BIGINT, refresh: continuous}}
"""
OTHER = '{{read: {{connector: kafka, servers: "h:1", topic: t{}, schema: n BIGINT, refresh: continuous}}}}'
PAUSED = STREAM.replace("read:", "paused: true, read:")
NOTHING = "dataflow: stream\ncomponents: {}\n"
COLUMNS = ("n", "_key", "_headers", "_partition", "_offset", "_timestamp")
ERROR = {**infrastructure_error("X", "no"), "kind": "user"}


@dataclass
class Place:
    now: float = 1e9
    pool: Pool = field(default_factory=Pool)

    def __post_init__(self) -> None:
        self.wake = WakeCounter()
        store = new_store(lambda: self.now)
        self.lake, self.ctx = MemoryLake(), Context(store, wake=self.wake.notify)
        self.loop = Reconciler(
            self.ctx.store, Fleet(self.ctx, self.lake, self.pool), Nowhere(), self.wake
        )
        self.apply(STREAM)

    def apply(self, text: str) -> None:
        blueprints.apply(self.ctx, "main", [blueprints.SentBlueprint("/stream.yaml", text, {})])

    def held(self) -> ListClaim:
        """A listing of a topic without news, which a worker holds."""
        self.lists()
        claim = self.asked_to_list()
        assert claim is not None
        assert claim["job"]["wait_s"] == LONG_POLL_S
        return claim

    def is_fenced(self, claim: ListClaim) -> bool:
        return claims.heartbeat(self.ctx, "worker", [claim["attempt"]])["fenced"] != []

    def asked_to_list(self) -> ListClaim | None:
        """Some minutes and passes later."""
        for _ in range(3):
            self.now += 60
            self.loop.tick()
        return self.listing()

    def asked_to_list_all(self, count: int) -> None:
        """So many held listings."""
        assert self.asked_to_list() is not None
        for _ in range(count - 1):
            assert "wait_s" in there(self.listing())["job"]

    def listing(self) -> ListClaim | None:
        claim = claims.claim(self.ctx, "worker", CONTRACT, ["list"])
        assert claim is None or claim["kind"] == "list"
        return claim

    def lists(self, *names: str) -> None:
        self.finds(self.asked_to_list(), *names)
        self.loop.tick()

    def finds(self, claim: ListClaim | None, *names: str) -> None:
        assert claim is not None
        found = told(each(file(name, columns=COLUMNS) for name in names), None)
        self.report(claim, {"result": {**found, "after": after(claim)}})

    def computes(self, **result: Json) -> None:
        claim = claims.claim(self.ctx, "worker", CONTRACT, ["parse"])
        assert claim is not None
        self.report(claim, result)
        self.loop.tick()

    def report(self, claim: Claim, result: Json) -> None:
        [task] = claim["tasks"]
        done = {"task": task["task"], "epoch": task["epoch"], "state": "done", **result}
        reports.report(self.ctx, "worker", claim["attempt"], [done], lake=self.lake)  # it is one


@pytest.fixture
def place() -> Place:
    return Place()


def test_what_was_found_is_committed_before_the_stream_is_looked_at_again(place: Place) -> None:
    place.lists("1")
    assert place.asked_to_list() is None
    place.computes(schema=struct_of([]), content=[0, 0, 0], files=[], metrics={})
    with place.ctx.store.read() as tx:
        assert tx.states.newest("main")["stream.messages"].partitions == 1
    place.lists("2")
    assert place.asked_to_list() is None


def test_what_cannot_be_computed_does_not_keep_anybody_from_looking(place: Place) -> None:
    place.lists("1")
    place.computes(state="failed", error=ERROR)
    assert place.asked_to_list() is not None


def test_nobody_looks_where_a_component_is_paused_in_its_blueprint(place: Place) -> None:
    place.apply(PAUSED)
    assert place.asked_to_list() is None
    place.apply(STREAM)
    assert place.asked_to_list() is not None


def test_a_listing_without_news_is_held_and_the_next_one_follows(place: Place) -> None:
    first = place.asked_to_list()
    assert first is not None
    assert "wait_s" not in first["job"], "nothing is known of the topic: the answer is awaited"
    place.finds(first)
    claim = place.held()
    count = place.wake.count
    place.finds(claim)
    assert place.wake.count > count, "the loop requests the next one"
    place.now += 0.3
    place.loop.tick()
    again = place.listing()
    assert again is not None
    assert "wait_s" in again["job"]


def test_a_request_does_not_wait_for_a_held_listing(place: Place) -> None:
    claim = place.held()
    controls.refresh(place.ctx, "main", "stream")
    assert place.is_fenced(claim)
    place.loop.tick()
    listed = place.listing()
    assert listed is not None
    assert "wait_s" not in listed["job"]
    place.finds(listed, "1")
    with pytest.raises(Fenced):
        place.finds(claim, "2")


def test_a_look_for_a_plan_or_a_status_does_not_wait_either(place: Place) -> None:
    claim = place.held()
    listing_requests.ask(place.ctx, "main", overview.sources(place.ctx, "main"))
    assert place.is_fenced(claim)
    listed = place.listing()
    assert listed is not None
    assert "wait_s" not in listed["job"]
    place.finds(listed)
    assert "wait_s" in place.held()["job"]


def test_held_listings_are_no_work(place: Place) -> None:
    limits = PoolLimits(0, 9, idle_s=-1.0, tasks_each=1)
    place.pool.shares = (PoolShare("worker", "standard", SIZES, limits),)
    place.apply(STREAM + "".join(f"  m{i}: {OTHER.format(i)}\n" for i in range(3)))
    place.loop.tick()
    assert place.pool.scaled_to == 4, "listings that wait for a worker"
    for _ in range(4):
        place.finds(place.listing())
    place.asked_to_list_all(4)
    outcome = place.loop.tick()
    assert outcome.under_way == 0
    assert run_progress.progress(place.ctx, "main", [])["under_way"] == 0
    assert place.pool.scaled_to == 1, "one worker holds all of them"
    assert place.pool.busy == set()
    place.now += 2 * LONG_POLL_S + 1
    place.loop.tick()
    assert (place.pool.scaled_to, place.pool.busy) == (4, {"worker"}), "they should be over"


def test_a_held_listing_outlives_its_worker(place: Place) -> None:
    place.pool.drivers = (driver("worker"),)
    place.held()
    place.pool.drivers = (driver("worker", driver_ends.AS_REQUESTED, "disrupted"),)
    place.loop.tick()
    again = place.listing()
    assert again is not None
    assert "wait_s" in again["job"]


@pytest.mark.parametrize("how", ["pause", "paused", "deleted"])
def test_a_held_listing_ends_with_its_source(place: Place, how: str) -> None:
    claim = place.held()
    if how == "pause":
        controls.pause(place.ctx, "main", "stream.messages")
    else:
        place.apply(PAUSED if how == "paused" else NOTHING)
    assert place.is_fenced(claim)
    assert place.asked_to_list() is None
    if how == "pause":
        controls.resume(place.ctx, "main", "stream.messages")
        assert place.asked_to_list() is not None


def test_a_held_listing_ends_where_another_topic_is_read(place: Place) -> None:
    claim = place.held()
    place.apply(STREAM.replace("topic: t", "topic: u"))
    place.loop.tick()
    assert place.is_fenced(claim)
    listed = place.listing()
    assert listed is not None
    assert listed["job"]["settings"]["topic"] == "u"


def test_an_error_is_not_held_and_not_repeated_at_once(place: Place) -> None:
    claim = place.held()
    place.report(claim, {"state": "failed", "error": ERROR})
    place.now += RETRY_S - 0.1
    place.loop.tick()
    assert place.listing() is None
    place.now += 0.2
    place.loop.tick()
    again = place.listing()
    assert again is not None
    assert "wait_s" not in again["job"]


@pytest.mark.parametrize(
    ("refresh", "listed_after_s"),
    [("continuous", 0.2), ("{within: 500ms}", 0.1), ("{within: 5s}", 1.0), ("30s", 30.0)],
)
def test_how_often_a_topic_is_listed_that_has_news_each_time(
    refresh: str, listed_after_s: float
) -> None:
    place = Place()
    place.apply(STREAM.replace("continuous", refresh))
    place.lists("1")
    place.computes(schema=struct_of([]), content=[0, 0, 0], files=[], metrics={})
    place.finds(place.asked_to_list(), "2")
    place.loop.tick()
    place.computes(schema=struct_of([]), content=[0, 0, 0], files=[], metrics={})
    place.now += listed_after_s - 0.01
    place.loop.tick()
    assert place.listing() is None
    place.now += 0.02
    place.loop.tick()
    assert place.listing() is not None

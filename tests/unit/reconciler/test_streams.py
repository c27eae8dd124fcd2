"""A stream is looked at again once what was found before is computed: else it would never be
whole."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.operations.work import claims, reports
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from dataplane.contract.claims import CONTRACT, Claim, ListClaim
from dataplane.contract.results import infrastructure_error
from dataplane.contract.schemas import Json, struct_of
from tests.property.engine import MemoryLake
from tests.stores import new_store
from tests.unit.listing.location import after, each, file, told
from tests.unit.reconciler.nowhere import Nowhere
from tests.unit.reconciler.test_reasons import Pool

STREAM = """\
dataflow: stream
components:
  messages: {read: {connector: kafka, servers: "h:1", topic: t, schema: n BIGINT, refresh: continuous}}
"""
COLUMNS = ("n", "_key", "_headers", "_partition", "_offset", "_timestamp")
ERROR = {**infrastructure_error("X", "no"), "kind": "user"}


@dataclass
class Place:
    now: float = 1e9
    pool: Pool = field(default_factory=Pool)

    def __post_init__(self) -> None:
        self.lake, self.ctx = MemoryLake(), Context(new_store(lambda: self.now))
        self.loop = Reconciler(
            self.ctx.store, Fleet(self.ctx, self.lake, self.pool), Nowhere(), WakeCounter()
        )
        blueprints.apply(self.ctx, "main", [blueprints.SentBlueprint("/stream.yaml", STREAM, {})])

    def asked_to_list(self) -> ListClaim | None:
        """Some minutes and passes later."""
        for _ in range(3):
            self.now += 60
            self.loop.tick()
        return self.listing()

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
    paused = STREAM.replace("read:", "paused: true, read:")
    blueprints.apply(place.ctx, "main", [blueprints.SentBlueprint("/stream.yaml", paused, {})])
    assert place.asked_to_list() is None
    blueprints.apply(place.ctx, "main", [blueprints.SentBlueprint("/stream.yaml", STREAM, {})])
    assert place.asked_to_list() is not None

"""A run does not end before all that was found is planned, whenever it is found."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from controlplane.operations.planning.apply_plan import Pass
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import Wake
from tests.unit.reconciler.nowhere import Nowhere
from tests.unit.reconciler.test_streams import Place

PASSES = 10


@dataclass
class Ends:
    """Once there is work for a driver; or after some passes, in which a run would have ended by itself."""

    loop: Reconciler
    looks: int = 0

    def is_set(self) -> bool:
        self.looks += 1
        return self.looks > PASSES or bool(self.loop.last and self.loop.last.under_way)


def test_what_is_found_after_a_pass_has_planned_is_planned_by_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    fleet = Fleet(place.ctx, place.lake, place.pool)
    place.loop = Reconciler(place.ctx.store, fleet, Nowhere(), Wake(), flows=frozenset({"stream"}))
    settling, passes = place.loop._settling, []
    plan = settling.settle

    def and_then_found() -> Pass:
        passes.append(plan())
        if len(passes) == 2:
            place.finds(place.listing(), "1")
            place.loop.wake.notify()
        return passes[-1]

    monkeypatch.setattr(settling, "settle", and_then_found)
    place.loop.settle(Ends(place.loop))
    assert [p.under_way > 0 for p in passes] == [False, False, True]

"""Listings cost few passes of the loop, and few statements."""

from __future__ import annotations

import threading
from pathlib import Path

from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.operations.work import claims, reports
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import IDLE_S, LISTING_GAP_S, Progress, Reconciler, TickOutcome
from controlplane.reconciler.wake import WakeCounter
from dataplane.contract.claims import CONTRACT, Claim
from dataplane.contract.results import TaskResult
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from tests.property.engine import MemoryLake
from tests.stores import store_at
from tests.unit.reconciler.nowhere import Nowhere
from tests.unit.reconciler.test_reasons import Place, Pool

FOLDERS, REFRESH_S = 20, 30.0
FLOW = """\
dataflow: flow{number}
components:
  rows:
    read: {{connector: files, path: {folder}/*.csv, format: csv, schema: id BIGINT, refresh: 30s}}
"""


class Waits(WakeCounter):
    """Ends the loop at its first wait. `seconds`: for how long that would have been; 0 where a
    notice ends it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.over, self.seconds = threading.Event(), 0.0

    def wait(self, timeout_s: float, count: int | None = None) -> None:
        self.seconds = timeout_s if count == self.count else 0.0
        self.over.set()


class Folders:
    """Dataflows with an empty folder each, and a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.now = 1_764_072_000.0
        store, self.lake = store_at(None, lambda: self.now), MemoryLake()
        self.ctx = Context(store)
        self.loop = Reconciler(store, Fleet(self.ctx, self.lake, Pool()), Nowhere(), WakeCounter())
        self.loop.close()  # no table is published beside the passes that are counted
        for number in range(FOLDERS):
            own = folder / str(number)
            own.mkdir()
            text = FLOW.format(number=number, folder=own)
            blueprints.apply(self.ctx, "main", [blueprints.SentBlueprint(f"/{number}", text, {})])

    def tick(self) -> tuple[TickOutcome, int]:
        """One pass, and its statements."""
        before = self.ctx.store.statements
        return self.loop.tick(), self.ctx.store.statements - before

    def list_all(self) -> int:
        """Do what a worker does, until it has no work; how many listings."""
        count = 0
        while (claim := claims.claim(self.ctx, "worker", CONTRACT, ["list"])) is not None:
            reports.report(self.ctx, "worker", claim["attempt"], [result_of(claim)], lake=self.lake)
            count += 1
        return count


def result_of(claim: Claim) -> TaskResult:
    assert claim["kind"] == "list"
    (task,) = claim["tasks"]
    listing = list_files(claim["job"], Versions())
    return {"task": task["task"], "epoch": task["epoch"], "state": "done", "result": listing}


def test_one_pass_queues_what_is_due_and_the_loop_waits(tmp_path: Path) -> None:
    """Else it passes again and again while workers list, each time over all of the graph."""
    place, waits, passes = Place(tmp_path), Waits(), list[Progress]()
    place.loop.wake, place.loop.on_progress = waits, passes.append
    place.loop.run(waits.over)
    assert waits.count > 0, "a worker that waits is told"
    assert len(passes) == 1
    assert waits.seconds == IDLE_S


def test_listings_that_are_due_together_are_requested_together(tmp_path: Path) -> None:
    place = Folders(tmp_path)
    while place.tick()[0].changed or place.list_all():
        """Until all is listed and committed."""
    place.now += REFRESH_S - 0.1
    outcome, at_rest = place.tick()
    assert outcome.again_after_s == LISTING_GAP_S
    place.now += LISTING_GAP_S
    outcome, statements = place.tick()
    assert statements <= at_rest + 5 * FOLDERS + 10
    assert outcome.again_after_s == IDLE_S, "what is under way is due a period later"
    assert place.list_all() == FOLDERS
    assert place.tick()[1] <= at_rest + 2, "nothing is planned for them"

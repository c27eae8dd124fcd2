"""OpenLineage events of what really happened: all of them, in order, as they are specified,
whatever the service does.

Does not belong here: the adapters (test_sinks.py), names that nobody has (test_run_events.py).
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controlplane.api import metrics
from controlplane.api.driver_services import Counters
from controlplane.cli import views
from controlplane.cli.output import Lines
from controlplane.core.model.addresses import Generation
from controlplane.core.model.events import COMMITTED, Event
from controlplane.core.model.leases import LOOP, Deposed
from controlplane.operations import export_cursor
from controlplane.operations.context import Context
from controlplane.operations.desired import rollback
from controlplane.operations.failing_units import OF_EXPORT, FailingUnits
from controlplane.operations.inspect import overview
from controlplane.reconciler.exporting import Exporting
from controlplane.reconciler.leader import FencedStore
from controlplane.services.openlineage import export as openlineage
from controlplane.services.openlineage.export import Export
from tests.openlineage import spec
from tests.stores import new_store
from tests.unit.branches.world import BranchWorld
from tests.unit.lineage.memory_sink import MemorySink

MAIN = "headgate://default/main"
DEAR = '  dear: {owner: team-é, transform: {sql: "SELECT k, v AS price FROM orders WHERE v > 1"}}\n'
SPENT = '  spent: {transform: {sql: "SELECT k, sum(price) AS total FROM dear GROUP BY k", partition_by: [k]}}\n'
COPY = "  copy: {write: {connector: files, from: dear, path: /out/copy, format: csv}}\n"
FLOW = DEAR + SPENT + COPY


@dataclass
class Exported:
    """A world at rest whose events are sent from then on."""

    world: BranchWorld
    sink: MemorySink = field(default_factory=MemorySink)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.export = self.over(self.world.store)
        self.export.begin()

    def over(self, store: Any) -> Export:
        return Export(
            store, "default", self.sink, "/lake", lambda outcome: self.outcomes.update([outcome])
        )

    def sent(self) -> list[Any]:
        """What was sent since the last call, which is as it is specified."""
        while self.export.step():
            pass
        return self.taken()

    def taken(self) -> list[Any]:
        found = [spec.valid(text) for text in self.sink.taken]
        self.sink.taken.clear()
        return found

    def cursor(self) -> int | None:
        with self.world.store.read() as tx:
            return tx.events.cursor(export_cursor.CURSOR)

    def last_event(self) -> int:
        with self.world.store.read() as tx:
            return tx.events.last()

    def tell(self, *events: Event) -> None:
        with self.world.store.begin() as tx:
            tx.events.put(events)


@pytest.fixture
def exported(tmp_path: Path) -> Exported:
    return settled(tmp_path)


def settled(home: Path) -> Exported:
    world = BranchWorld(home)
    world.put("a.csv", (1, 10), (2, 20))
    world.apply(FLOW)
    world.settle()
    return Exported(world)


def arrive(exported: Exported, name: str = "b.csv") -> None:
    """Data that moves orders, dear and spent."""
    exported.world.put(name, (1, 30), (3, 5))
    exported.world.settle()


def jobs(events: list[Any]) -> list[tuple[str, str]]:
    return [(one["job"]["name"][5:], one["eventType"]) for one in events]


def of_job(events: list[Any], name: str, kind: str = "COMPLETE") -> Any:
    [found] = [
        one for one in events if one["job"]["name"] == f"shop.{name}" and one["eventType"] == kind
    ]
    return found


# --- what is told ---------------------------------------------------------------------------------


def test_what_was_before_is_not_told_and_what_comes_is_told_once(tmp_path: Path) -> None:
    exported = settled(tmp_path)
    assert exported.sent() == []
    arrive(exported)
    told = exported.sent()
    moved = ["orders", "dear", "spent"]
    assert [one for one in jobs(told) if one[0] != "copy"] == [
        (name, kind) for name in moved for kind in ("START", "COMPLETE")
    ]
    assert exported.sent() == []
    assert exported.cursor() == exported.last_event()


def test_a_run_has_one_id_and_another_run_another(exported: Exported) -> None:
    arrive(exported)
    arrive(exported, "c.csv")
    ids = Counter(one["run"]["runId"] for one in exported.sent())
    assert set(ids.values()) == {2}
    assert len(ids) >= 6


def test_a_commit_tells_versions_columns_and_their_lineage(exported: Exported) -> None:
    arrive(exported)
    told = of_job(exported.sent(), "spent")
    with exported.world.store.read() as tx:
        states = tx.states.newest("main")
    [output], [read] = told["outputs"], told["inputs"]
    assert (output["namespace"], output["name"]) == (MAIN, "shop.spent")
    facets = output["facets"]
    assert facets["version"]["datasetVersion"] == states["shop.spent"].root.hex()
    assert [one["name"] for one in facets["schema"]["fields"]] == ["k", "total"]
    total = facets["columnLineage"]["fields"]["total"]["inputFields"]
    aggregation = {"type": "DIRECT", "subtype": "AGGREGATION"}
    assert [(one["name"], one["field"]) for one in total] == [("shop.dear", "price")]
    assert aggregation.items() <= total[0]["transformations"][0].items()
    assert facets["symlinks"]["identifiers"] == [
        {"namespace": "file", "name": "/lake/default/shop/spent", "type": "LOCATION"}
    ]
    assert (read["namespace"], read["name"]) == (MAIN, "shop.dear")
    assert read["facets"]["version"]["datasetVersion"] == states["shop.dear"].root.hex()
    ours = told["run"]["facets"]["headgate_state"]
    assert (ours["branch"], ours["generation"], ours["seq"]) == (
        "main",
        2,
        states["shop.spent"].seq,
    )


def test_a_job_tells_its_code_and_who_answers_for_it(exported: Exported) -> None:
    arrive(exported)
    told = exported.sent()
    dear = of_job(told, "dear")
    facets = dear["job"]["facets"]
    assert facets["sql"]["query"] == "SELECT k, v AS price FROM orders WHERE v > 1"
    assert facets["jobType"]["jobType"] == "SQL"
    assert (
        facets["ownership"]["owners"]
        == dear["outputs"][0]["facets"]["ownership"]["owners"]
        == [{"name": "team-é"}]
    )
    assert facets["sourceCodeLocation"]["url"] == "file:///shop.yaml"
    assert facets["sourceCodeLocation"]["version"] == "1"
    orders = of_job(told, "orders")
    assert [one["namespace"] for one in orders["inputs"]] == ["file"]
    assert "ownership" not in orders["job"]["facets"]


def test_a_copy_is_written_to_a_place_outside(exported: Exported) -> None:
    exported.tell(Event("partitions.written", "shop.copy", 2, {}, branch="main"))
    told = of_job(exported.sent(), "copy")
    assert [(one["namespace"], one["name"]) for one in told["outputs"]] == [("file", "/out/copy")]
    assert [one["name"] for one in told["inputs"]] == ["shop.dear"]
    assert told["run"]["facets"]["headgate_state"]["partitions"] == 2


def test_tasks_that_failed_on_the_way_to_one_state_are_one_failed_run(exported: Exported) -> None:
    failed = Event(
        "task.failed", "shop.dear", 1, {"message": "no such column: hg_" + 32 * "a"}, branch="main"
    )
    exported.tell(failed, failed)
    told = exported.sent()
    assert jobs(told) == [("dear", "START"), ("dear", "FAIL")]
    assert told[0]["run"]["runId"] == told[1]["run"]["runId"]
    error = told[1]["run"]["facets"]["errorMessage"]
    assert error["message"] == "no such column: hg_***"
    exported.tell(failed)
    assert exported.sent()[0]["run"]["runId"] == told[0]["run"]["runId"]


def test_a_branch_tells_its_own_datasets_and_no_table(exported: Exported) -> None:
    exported.world.create()
    exported.world.apply_in("dev", FLOW.replace("v > 1", "v > 15"))
    exported.world.ran()
    told = exported.sent()
    dear = of_job(
        [one for one in told if one["job"]["namespace"] == "headgate://default/dev"], "dear"
    )
    assert dear["outputs"][0]["namespace"] == "headgate://default/dev"
    assert "symlinks" not in dear["outputs"][0]["facets"]
    assert "v > 15" in dear["job"]["facets"]["sql"]["query"]


def test_a_rollback_is_told_with_the_code_that_made_the_rows(exported: Exported) -> None:
    exported.world.apply(FLOW.replace("v AS price", "v + k AS price"))
    exported.world.settle()
    exported.sent()
    rollback.rollback(exported.world.ctx, "main", "shop.dear", Generation(1))
    told = of_job(exported.sent(), "dear")
    assert told["job"]["facets"]["sql"]["query"] == "SELECT k, v AS price FROM orders WHERE v > 1"
    assert told["run"]["facets"]["headgate_state"]["cause"] == "rollback"


def test_a_commit_whose_state_is_not_kept_is_told_as_far_as_its_event_knows(
    exported: Exported,
) -> None:
    body = {"seq": 99, "generation": 7, "root": "ab" * 32, "cause": "data", "rows": 3}
    exported.tell(Event(COMMITTED, "shop.dear", 2, body, branch="main"))
    told = of_job(exported.sent(), "dear")
    assert told["outputs"][0]["facets"]["version"]["datasetVersion"] == "ab" * 32
    assert "schema" not in told["outputs"][0]["facets"]
    assert told["run"]["facets"]["headgate_state"]["rows"] == 3


def test_events_of_an_earlier_version_and_of_nothing_are_passed_over(exported: Exported) -> None:
    exported.tell(
        Event(COMMITTED, "shop.dear", 2, {"generation": 1}, branch="main"),
        Event("token.created", "", 1, {}, branch=""),
        Event("partitions.written", "gone.copy", 1, {}, branch="main"),
    )
    assert jobs(exported.sent()) == [("copy", "START"), ("copy", "COMPLETE")]
    assert exported.outcomes["failed"] == 0


# --- what does not go well ------------------------------------------------------------------------


def test_an_outage_loses_nothing_and_what_is_sent_again_is_the_same(exported: Exported) -> None:
    arrive(exported)
    exported.sink.answers.extend([True, True, True, ConnectionError("away")])
    with pytest.raises(ConnectionError):
        exported.export.step()
    before = exported.taken()
    assert jobs(before) == [("orders", "START"), ("orders", "COMPLETE"), ("dear", "START")]
    after = exported.sent()
    assert after[0] == before[2]
    assert jobs(after)[:2] == [("dear", "START"), ("dear", "COMPLETE")]


def test_what_is_refused_is_counted_and_holds_nothing_up(exported: Exported) -> None:
    arrive(exported)
    exported.sink.answers.extend([False, False])
    told = exported.sent()
    assert "orders" not in dict(jobs(told))
    assert ("spent", "COMPLETE") in jobs(told)
    assert exported.outcomes == {"refused": 2, "sent": len(told)}


def test_an_event_that_cannot_be_made_is_counted_and_holds_nothing_up(exported: Exported) -> None:
    exported.tell(Event("task.failed", "shop.dear", 1, {"message": "\ud800"}, branch="main"))
    arrive(exported)
    told = exported.sent()
    assert ("spent", "COMPLETE") in jobs(told)
    assert exported.outcomes == {"failed": 1, "sent": len(told)}


def test_where_columns_cannot_be_told_the_rest_is(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise RecursionError("too deep")

    monkeypatch.setattr(openlineage, "stored_facts", broken)
    arrive(exported)
    told = of_job(exported.sent(), "spent")
    assert "columnLineage" not in told["outputs"][0]["facets"]
    assert told["outputs"][0]["facets"]["schema"]["fields"]
    assert exported.outcomes["failed"] == 0


def test_a_fault_of_the_database_skips_nothing(
    exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(exported)
    before = exported.cursor()
    faults = iter([KeyError("of a broken connection")])

    def broken(*_: Any, **__: Any) -> Any:
        raise next(faults, OSError("the database is away"))

    with monkeypatch.context() as away:
        away.setattr(openlineage, "desired", broken)
        with pytest.raises(OSError, match="the database is away"):
            exported.export.step()
    assert (exported.cursor(), exported.outcomes) == (before, {})
    assert ("spent", "COMPLETE") in jobs(exported.sent())


def test_who_was_deposed_moves_no_cursor(exported: Exported) -> None:
    arrive(exported)
    before = exported.cursor()
    with exported.world.store.begin() as tx:
        lease = tx.leases.take(LOOP, "one", 60.0)
        tx.leases.end(LOOP, lease.epoch)
    with exported.world.store.begin() as tx:
        tx.leases.take(LOOP, "another", 60.0)
    with pytest.raises(Deposed):
        exported.over(FencedStore(exported.world.store, lease.epoch)).step()
    assert exported.cursor() == before


# --- the thread, and what operators see -----------------------------------------------------------


def test_the_thread_sends_what_there_is_before_it_ends(exported: Exported) -> None:
    thread = Exporting(exported.export, FailingUnits())
    thread.start()
    arrive(exported)
    thread.nudge()
    thread.close(60.0)
    assert ("spent", "COMPLETE") in jobs(exported.taken())
    assert exported.cursor() == exported.last_event()


def test_the_thread_backs_off_and_goes_on_where_it_was(exported: Exported) -> None:
    failing_units, tried = FailingUnits(), threading.Event()
    exported.sink.answers.extend([ConnectionError("away")])
    send = exported.sink.send

    def told(event: bytes) -> bool:
        tried.set()
        return send(event)

    exported.sink.send = told  # type: ignore[method-assign]
    arrive(exported)
    thread = Exporting(exported.export, failing_units)
    thread.start()
    assert tried.wait(60.0)
    thread.close()
    assert exported.taken() == []
    assert failing_units.failures(OF_EXPORT) == 1
    ctx = Context(exported.world.store, failing_units=failing_units, exports=True)
    told_now = overview.status(ctx, "main")["openlineage"]
    assert told_now["behind"] > 0
    assert told_now["error"] == "ConnectionError: away"
    assert ("orders", "START") in jobs(exported.sent())


def test_status_and_metrics_tell_how_far_behind_it_is(exported: Exported) -> None:
    arrive(exported)
    ctx = Context(exported.world.store, exports=True)
    behind = overview.status(ctx, "main")["openlineage"]
    assert behind == {"behind": exported.last_event() - (exported.cursor() or 0), "error": None}
    assert behind["behind"] > 0
    assert Lines((f"OpenLineage: {behind['behind']} events behind",)) in views.status(
        overview.status(ctx, "main")
    )
    assert "openlineage" not in overview.status(exported.world.ctx, "main")
    counters = Counters()
    counters.add("openlineage_events", "refused")
    text = metrics.render(exported.world.store, counters, {}, FailingUnits(), exports=True).decode()
    assert f"headgate_openlineage_behind_events {float(behind['behind'])}" in text
    assert 'headgate_openlineage_events_total{outcome="refused"} 1.0' in text
    silent = metrics.render(exported.world.store, counters, {}, FailingUnits()).decode()
    assert "behind_events" not in silent
    exported.sent()
    assert overview.status(ctx, "main")["openlineage"]["behind"] == 0


def test_a_second_start_goes_on_where_the_first_one_was() -> None:
    store = new_store()
    with store.begin() as tx:
        tx.events.put([Event("task.done", "a.b", 1, {}, branch="main")])
    export = Export(store, "default", MemorySink())
    export.begin()
    with store.begin() as tx:
        tx.events.put([Event("task.done", "a.b", 1, {}, branch="main")])
    export.begin()
    with store.read() as tx:
        assert export_cursor.behind(tx) == 1

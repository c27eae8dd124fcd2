"""Reports that are refused, or taken in for a part: of other drivers, of old attempts, or with
other files.

A driver that was slow, or lies, changes nothing that another attempt has made.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import Fenced
from controlplane.core.model.tasks import Task
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from controlplane.operations.work import claims, recording, reports, rescue
from controlplane.store import open_store, upgrade
from dataplane.contract.claims import CONTRACT, Claim
from dataplane.contract.results import FileEntry, TaskResult
from tests.store.examples import SCHEMA, d, listing, source_partition, stored_job, task

FLIGHTS = "flights.raw"


class Reporting:
    """Task 1 parses an object of listing 1; a driver has claimed it."""

    def __init__(self, folder: Path) -> None:
        url = f"sqlite:///{folder / 'metadata.db'}"
        upgrade(url)
        self.now = 1000.0
        self.ctx = Context(open_store(url, lambda: self.now))
        self.lake = LocalObjects(folder / "lake")
        objects = list(source_partition("2013-1.csv").objects)
        spec = {"objects": objects, "listing": d(1).hex()}
        with self.ctx.store.begin() as tx:
            tx.listings.put(listing(1, at=900.0, requested=1, served=1))
            tx.queue.put_job(d(0), stored_job())
            tx.queue.enqueue("main", FLIGHTS, [task(1, kind="parse", dataset=FLIGHTS, spec=spec)])
        self.claim = self.next_claim()

    def next_claim(self) -> Claim:
        claim = claims.claim(self.ctx, "driver", CONTRACT, ["parse"])
        assert claim is not None
        return claim

    def result(self, path: str = "", size: int = 4, epoch: int = 1) -> TaskResult:
        """With one file of four bytes, which is there."""
        path = path or f"{self.claim['prefix']}/0.parquet"
        self.lake.put_if_absent(path, b"rows")
        files: list[FileEntry] = [{"path": path, "size": size, "rows": 1, "stats": {}}]
        head: TaskResult = {"task": d(1).hex(), "epoch": epoch, "state": "done", "schema": SCHEMA}
        return {**head, "content": [1, 2, 3], "files": files}

    def report(self, *results: TaskResult, driver: str = "driver") -> reports.ReportAnswer:
        return reports.report(self.ctx, driver, self.claim["attempt"], results, lake=self.lake)

    @property
    def task(self) -> Task:
        with self.ctx.store.read() as tx:
            return tx.queue.tasks([d(1)])[d(1)]


@pytest.fixture
def reporting(tmp_path: Path) -> Reporting:
    return Reporting(tmp_path)


def test_a_report_ends_its_tasks(reporting: Reporting) -> None:
    assert reporting.report(reporting.result()) == {"accepted": [d(1).hex()], "fenced": []}
    assert reporting.task.state == "done"


def test_a_driver_reports_for_itself_alone(reporting: Reporting) -> None:
    with pytest.raises(Fenced):
        reporting.report(reporting.result(), driver="other")
    assert reporting.task.state == "running"


def test_an_attempt_that_ends_while_its_report_is_checked_changes_nothing(
    reporting: Reporting,
) -> None:
    with reporting.ctx.store.read() as tx:
        attempt = tx.queue.attempts()[reporting.claim["attempt"]]
    rescue.abandon(reporting.ctx, attempt, reason="its driver fell silent")
    with pytest.raises(Fenced):
        reports.take_in(reporting.ctx, attempt, [reporting.result()], reporting.lake, by="executed")
    with reporting.ctx.store.read() as tx:
        assert tx.traces.hits([d(1)]) == {}


def test_a_result_under_an_old_epoch_does_not_count(reporting: Reporting) -> None:
    reporting.now += max(recording.BACKOFF_S)
    assert reporting.report(reporting.result(epoch=0)) == {"accepted": [], "fenced": [d(1).hex()]}
    assert reporting.task.state == "queued"


@pytest.mark.parametrize("size", [3, 5])
def test_files_have_the_size_that_is_reported(reporting: Reporting, size: int) -> None:
    reporting.report(reporting.result(size=size))
    assert (reporting.task.state, reporting.task.failures) == ("queued", 1)
    assert reporting.task.error is not None
    assert reporting.task.error["condition"] == "file-missing"


def test_a_source_that_changed_while_it_was_read_is_listed_again(reporting: Reporting) -> None:
    reporting.report({"task": d(1).hex(), "epoch": 1, "state": "void"})
    with reporting.ctx.store.read() as tx:
        listing = tx.listings.get([d(1)])[d(1)]
    assert (listing.requested, listing.served) == (2, 1)

"""The worker's loop against a scripted control plane."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet
import pytest

from controlplane.core.schema.ddl_schemas import parse_ddl
from dataplane.contract.claims import Claim
from dataplane.contract.jobs import ListJob
from dataplane.contract.kinds import WORKER_KINDS, Kind
from dataplane.contract.results import Measures, TaskResult
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import ListingResult, listing_head
from dataplane.listing.version_cache import Versions, cache_file
from dataplane.runtime import worker
from dataplane.runtime.client import AttemptFenced, CallRefused, Ended, Heartbeat, Reported
from dataplane.runtime.heartbeats import Orders
from dataplane.runtime.worker import SLICES, WAITS, WRITES, WorkerState, perform, run
from dataplane.runtime.worker_slots import MOST_LONG_POLLS, Slots
from tests.unit.listing.location import list_job

HANGS_S = 60.0


def claim(kind: Kind, job: Json, *tasks: Json, attempt: str = "1", lease_s: float = 60.0) -> Claim:
    specs = [
        {"task": f"{i:064x}", "epoch": 3, "partition": ""} | t for i, t in enumerate(tasks or ({},))
    ]
    told = {
        "contract": 1,
        "attempt": attempt,
        "dataset": "flow.daily",
        "prefix": "default/flow/daily/_frags/01/1",
        "lake": "file:///nowhere",
        "lease_s": lease_s,
        "kind": kind,
        "job": job,
        "tasks": specs,
    }
    return cast("Claim", told)


class Script:
    """Hands out claims one by one, each kind to who asks for it, then ends when all was
    reported."""

    def __init__(
        self, *claims: Claim | None, answer: Heartbeat | None = None, fenced: bool = False
    ) -> None:
        self.claims = list(claims)
        self.answer = answer or Heartbeat()
        self.fenced = fenced
        self.reported: list[tuple[str, list[TaskResult]]] = []
        self.beat, self.beats = threading.Event(), 0
        self.changed = threading.Condition()
        self.left = sum(c is not None for c in claims)

    def claim(
        self, kinds: Iterable[Kind], wait_s: float, without: Collection[str] = ()
    ) -> Claim | None:
        assert set(kinds) in (WAITS, WRITES, SLICES)
        with self.changed:
            theirs = [c for c in self.claims if c is None or c["kind"] in kinds]
            if theirs:
                self.claims.remove(theirs[0])
                return theirs[0]
            assert self.changed.wait_for(lambda: self.left == 0, HANGS_S)
            raise Ended("401")

    def _told(self) -> None:
        with self.changed:
            self.left -= 1
            self.changed.notify_all()

    def heartbeat(self, attempts: Iterable[str]) -> Heartbeat:
        if self.beats:  # the answer to the one before has been heeded by now
            self.beat.set()
        self.beats += 1
        return self.answer

    def report(
        self, attempt: str, results: Sequence[TaskResult], measures: Measures | None = None
    ) -> Reported:
        try:
            if self.fenced:
                raise AttemptFenced("409")
            self.reported.append((attempt, list(results)))
            return Reported((), ())
        finally:
            self._told()


class Reports(Script):
    """Does something after the report of an attempt."""

    def __init__(self, *claims: Any, after: str, then: Callable[[], None]) -> None:
        super().__init__(*claims)
        self._after, self._then = after, then

    def report(
        self, attempt: str, results: Sequence[TaskResult], measures: Measures | None = None
    ) -> Reported:
        if attempt == self._after:
            self._then()
        return super().report(attempt, results, measures)


class Refusing(Script):
    """A control plane of the version before, until it is replaced."""

    is_old = True

    def claim(
        self, kinds: Iterable[Kind], wait_s: float, without: Collection[str] = ()
    ) -> Claim | None:
        if set(kinds) == SLICES and self.is_old:
            self.is_old = False
            raise CallRefused("422: slice")
        return super().claim(kinds, wait_s, without)


class Holding(WorkerState):
    """Holds listings until an event."""

    def __init__(self, script: Script, may_end: threading.Event) -> None:
        super().__init__(script, Versions(), Slots(1))
        self._may_end = may_end

    def _await_news(self, _claim: Claim, _orders: Orders) -> None:
        assert self._may_end.wait(HANGS_S)


def listing_job(folder: Path) -> ListJob:
    return list_job(f"{folder}/*.csv", options={"header": True})


def listing_of(done: TaskResult) -> ListingResult:
    return cast("ListingResult", done["result"])


def test_claims_are_done_and_reported_until_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    script = Script(
        None,
        claim("list", listing_job(tmp_path)),
        None,
        claim("list", listing_job(tmp_path / "no"), attempt="2"),
    )
    run(script)
    (first, (done,)), (second, (failed,)) = sorted(script.reported)
    assert (first, second) == ("1", "2")
    assert (done["state"], done["epoch"], listing_of(done)["objects"]) == ("done", 3, 1)
    assert failed["state"] == "failed"
    assert failed["error"]["kind"] == "user"
    assert failed["error"]["condition"] == "path-not-found"
    assert "Traceback" in failed["error"]["detail"]


def test_a_large_listing_becomes_a_file(tmp_path: Path) -> None:
    columns = ",".join(f"column {i}" for i in range(1000))
    for i in range(50):
        (tmp_path / f"{i}.csv").write_text(columns)
    work = claim("list", listing_job(tmp_path))
    work["lake"] = (tmp_path / "lake").as_uri()
    [done] = perform(work, Versions(), Orders())
    result = listing_of(done)
    assert (result["objects"], len(result["columns"]), "partitions" in result) == (50, 1, False)
    [file] = [p for p in (tmp_path / "lake").rglob("*") if p.is_file()]
    assert file == tmp_path / "lake" / work["prefix"] / result["file"]
    lines = gzip.decompress(file.read_bytes())
    assert hashlib.sha256(lines).hexdigest() == result["digest"]
    assert [listing_head(line)[0] for line in lines.splitlines()] == sorted(
        f"{i}.csv" for i in range(50)
    )


def test_listings_beyond_those_that_are_held_do_not_wait(tmp_path: Path) -> None:
    """Nothing sleeps in a slot: with only one, another listing is done meanwhile."""
    held_job: ListJob = {**listing_job(tmp_path), "within_s": 1.0, "wait_s": 3600.0}
    count = MOST_LONG_POLLS + 1
    held = [claim("list", held_job, attempt=f"held {i}") for i in range(count)]
    other, may_end = claim("list", listing_job(tmp_path), attempt="other"), threading.Event()
    script = Reports(*held, other, after="other", then=may_end.set)
    work = Holding(script, may_end)
    work.look()
    work.beats.close()
    first_two = [attempt for attempt, _ in script.reported[:2]]
    assert first_two == [f"held {count - 1}", "other"]
    assert len(script.reported) == count + 1


def test_one_broken_task_does_not_spoil_the_others(tmp_path: Path) -> None:
    job = {
        "path": str(tmp_path / "out"),
        "format": "json",
        "options": {},
        "owner": "me",
        "schema": {"type": "struct", "fields": []},
    }
    tasks = ({"partition": "a", "files": ["missing.parquet"]}, {"partition": "b", "remove": True})
    script = Script(claim("write", job, *tasks))
    run(script)
    states = [r["state"] for _, results in script.reported for r in results]
    assert states == ["failed", "done"]


def test_a_fenced_report_is_no_reason_to_stop(tmp_path: Path) -> None:
    script = Script(
        claim("list", listing_job(tmp_path)), claim("list", listing_job(tmp_path)), fenced=True
    )
    run(script)
    assert script.claims == []


def test_a_fenced_attempt_stops_between_tasks(tmp_path: Path) -> None:
    orders = Orders()
    orders.fence()
    assert perform(claim("list", listing_job(tmp_path), {}, {}), Versions(), orders) == []


class Waiting(Versions):
    """Makes a listing last until a heartbeat was answered."""

    def __init__(self, beat: threading.Event) -> None:
        super().__init__()
        self.beat = beat

    def now_ns(self) -> int:
        self.beat.wait()
        return 0


def test_heartbeats_go_on_during_work_and_drain_ends_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    script = Script(answer=Heartbeat((), drain=True))
    work = WorkerState(script, Waiting(script.beat), Slots(2))
    with closing(work.beats):
        work.do(claim("list", listing_job(tmp_path), lease_s=0.03))
    assert work.beats.is_over
    assert len(script.reported) == 1


def test_a_fencing_heartbeat_keeps_the_result_back(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    script = Script(answer=Heartbeat(("1",)))
    work = WorkerState(script, Waiting(script.beat), Slots(2))
    with closing(work.beats):
        work.do(claim("list", listing_job(tmp_path), lease_s=0.03))
    assert script.reported == []


def test_the_cache_lies_in_the_home() -> None:
    assert cache_file("/home/x") == Path("/home/x/cache/versions.db")
    assert cache_file(None) is None


def test_a_worker_loads_neither_spark_nor_arrow() -> None:
    code = (
        "import sys, dataplane.runtime.worker; print([m for m in ('pyspark', 'pyarrow', 'numpy') "
        "if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


def test_a_worker_asks_for_work_of_workers_alone() -> None:
    assert WAITS | WRITES | SLICES == WORKER_KINDS
    assert not WAITS & WRITES
    assert not (WAITS | WRITES) & SLICES


def test_slices_are_asked_for_again_after_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "REFUSED_S", 0.0)
    told = {**claim("slice", {}, {"objects": []}), "lake": tmp_path.as_uri()}
    script = Refusing(cast("Claim", told))
    state = WorkerState(script, Versions(), Slots(1))
    with closing(state.beats):
        state.read_slices()
    assert [attempt for attempt, _ in script.reported] == ["1"]


def test_footers_of_what_an_earlier_version_parsed(tmp_path: Path) -> None:
    """Right, misread, changed since it was listed, and no file of the format: one answer each,
    without Spark."""
    tables = {
        "right": pa.table({"id": pa.array([1], pa.int32()), "c": pa.array([1], pa.int16())}),
        "misread": pa.table({"id": [1], "c": pa.array([Decimal("1.25")], pa.decimal128(9, 2))}),
        "changed": pa.table({"id": [1]}),
    }
    tasks = []
    for name, table in tables.items():
        path = tmp_path / f"{name}.parquet"
        pyarrow.parquet.write_table(table, path)
        tasks.append(
            {"objects": [_listed(path)], "columns": parse_ddl("id BIGINT, c INT, gone DATE")}
        )
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1")
    tasks.append({"objects": [_listed(broken)], "columns": parse_ddl("id BIGINT")})
    (tmp_path / "changed.parquet").write_bytes(b"")
    work = claim("footers", {"format": "parquet", "options": {}, "timezone": "UTC"}, *tasks)
    work["lake"] = (tmp_path / "lake").as_uri()
    right, misread, changed, failed = perform(work, Versions(), Orders())
    assert right["result"] == {"misread": []}
    place = {"file": str(tmp_path / "misread.parquet"), "column": "c"}
    assert misread["result"] == {"misread": [{**place, "have": "DECIMAL(9,2)", "read": "INT"}]}
    assert changed["state"] == "void"
    assert failed["error"]["condition"] == "MALFORMED_FILE"


def _listed(path: Path) -> Any:
    data, status = path.read_bytes(), path.stat()
    version = f"sha256:{hashlib.sha256(data).hexdigest()}"
    modified_ms = status.st_mtime_ns // 1_000_000
    return {
        "name": path.name,
        "uri": path.as_uri(),
        "size": len(data),
        "modified_ms": modified_ms,
        "version": version,
        "columns": None,
    }

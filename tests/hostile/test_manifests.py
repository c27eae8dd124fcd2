"""What drivers and workers write may be anything: it fails their own dataset, and no other dataflow
notices."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controlplane.core import wire
from controlplane.core.errors import HeadgateError
from controlplane.core.model.drivers import Driver
from controlplane.core.model.scaling import PoolShare
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Attempt
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from controlplane.operations.desired import controls
from controlplane.operations.work import claims, reports, rescue
from controlplane.reconciler.fleet import RESCUE_TRIES, Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from dataplane.contract.claims import CONTRACT, Claim
from dataplane.contract.results import MANIFEST, TaskResult, infrastructure_error
from tests.hostile.garbage import garbage, spoilt
from tests.hostile.resting import PASSES, Resting
from tests.property.engine import Engine, Fault, Lake
from tests.property.model import Component, Copy, File, Grouped, Read, Total
from tests.property.world import BRANCH, World
from tests.slices import sliced
from tests.unit.reconciler.nowhere import Nowhere

SEEDS = 25


@dataclass(slots=True)
class Spoiling(Engine):
    """An engine whose driver spoils what it computes for the dataflow `bad`, in a report or in a
    manifest."""

    chance: random.Random = field(default_factory=lambda: random.Random(0))
    spoils: bool = True

    def _end(self, claim: Claim, driver: str, results: list[TaskResult], fault: Fault) -> None:
        if not self.spoils or not claim["dataset"].startswith("bad.") or self.chance.random() < 0.3:
            Engine._end(self, claim, driver, results, "none")
            return
        if self.chance.random() < 0.5:
            self._report_spoilt(claim, driver, results)
        else:
            self._leave_spoilt(claim, results)
        self._rescue_if_live(claim)

    def _finish(self, taken: Any, results: list[TaskResult], fault: Fault) -> None:
        self._end(taken.claim, taken.driver, results, fault)
        self._runs.clear()

    def _report_spoilt(self, claim: Claim, driver: str, results: list[TaskResult]) -> None:
        body = garbage(self.chance) if self.chance.random() < 0.2 else spoilt(self.chance, results)
        try:
            result = body if isinstance(body, list) else [body]
            reports.report(self.ctx, driver, claim["attempt"], result, lake=self.lake)
        except HeadgateError:
            """It is told, and tries again or ends."""

    def _leave_spoilt(self, claim: Claim, results: list[TaskResult]) -> None:
        manifest = {
            "contract": CONTRACT,
            "attempt": claim["attempt"],
            "results": results,
            "versions": {},
        }
        body = json.dumps(spoilt(self.chance, manifest)).encode()
        if self.chance.random() < 0.2:
            body = body[: self.chance.randint(0, len(body))]
        self.lake.put_if_absent(f"{claim['prefix']}/{MANIFEST}", body)

    def _rescue_if_live(self, claim: Claim) -> None:
        with self.ctx.store.read() as tx:
            attempt = tx.queue.attempts([claim["attempt"]]).get(claim["attempt"])
        if attempt is not None:
            rescue.adopt(self.ctx, attempt, self.lake, reason="its driver ended")


class Attacked(Resting):
    """A world whose engine serves the dataflow `good` well, and the dataflow `bad` not."""

    def __init__(self, home: Path, url: str, seed: int) -> None:
        self._seed = seed
        super().__init__(home, url)
        for name in ("a.csv", "b.csv"):
            self.put("one", name, File(("k", "v"), ((1, 2), (3, 4))))
            self.put("two", name, File(("k", "v"), ((5, 6), (7, 8))))
        bad: dict[str, Component] = {"x": Read("one"), "y": Grouped("x"), "to_y": Copy("y")}
        # Shares no task
        good: dict[str, Component] = {
            "x": Read("two", declared=("k", "v")),
            "y": Total("x"),
            "to_y": Copy("y"),
        }
        self.apply({"bad": bad, "good": good}, {})

    def _engine(self) -> Engine:
        args = (self.ctx, self.lake, self.canonical, self._listed)
        return Spoiling(*args, salt=self._salt, plain=self.plain, chance=random.Random(self._seed))

    def _check_cut(self, state: State) -> None:
        if state.dataset.startswith("good."):
            super()._check_cut(state)


# Each writes garbage by other dice at the same places
@pytest.mark.parametrize("seed", sliced(range(SEEDS), 5))
def test_garbage_of_one_dataflow_stops_no_other(seed: int, tmp_path: Path) -> None:
    world = Attacked(tmp_path, f"sqlite:///{tmp_path}/metadata.db", seed)
    status = world.go_on()
    assert {name: of for name, of in status.items() if name.startswith("good.")} == dict.fromkeys(
        ("good.x", "good.y", "good.to_y"), "up_to_date"
    )
    for change in range(2):
        world.put("two", f"late-{change}.csv", File(("k", "v"), ((5, change),)))
        world.put("one", f"late-{change}.csv", File(("k", "v"), ((9, change),)))
        status = world.go_on()
        assert status["good.y"] == status["good.to_y"] == "up_to_date"
    with world.store.read() as tx:
        assert tx.states.newest(BRANCH)["good.x"].partitions == 4
    world.close()


def test_what_was_spoilt_is_made_once_its_driver_is_honest(tmp_path: Path) -> None:
    world = Attacked(tmp_path, f"sqlite:///{tmp_path}/metadata.db", 7)
    world.go_on()
    engine = world.engine
    assert isinstance(engine, Spoiling)
    engine.spoils = False
    for dataset in ("bad.x", "bad.y", "bad.to_y"):
        controls.retry(world.ctx, BRANCH, dataset)
    world.put("one", "late.csv", File(("k", "v"), ((5, 5),)))
    assert set(world.go_on().values()) == {"up_to_date"}


# --- the loop -----------------------------------------------------------------------------------


@dataclass
class Ended:
    """A pool whose drivers have all ended."""

    name = "kubernetes"
    outlives = True
    shares: tuple[PoolShare, ...] = ()
    drivers: tuple[Driver, ...] = ()

    def poll(self) -> tuple[Driver, ...]:
        return self.drivers

    def scale(self, *_: Any) -> None: ...
    def end(self, *_: Any) -> None: ...
    def log(self, driver: str, lines: int) -> str:
        return ""

    def close(self) -> None: ...


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Attacked]:
    made = Attacked(tmp_path, f"sqlite:///{tmp_path}/metadata.db", 1)
    yield made
    made.close()


def _claimed(world: World, dataset: str) -> Claim:
    """Work of a driver that dies with it, once it is there."""
    controls.refresh(world.ctx, BRANCH, None)
    for _ in range(PASSES):
        world.once()
        while (claim := claims.claim(world.ctx, "dead", CONTRACT, ["parse"], lake="")) is None:
            if not world.engine.step():
                break
        if claim is not None and claim["dataset"] == dataset:
            return claim
        if claim is not None:
            Engine._end(world.engine, claim, "dead", world.engine._carry_out([claim])[0], "none")
    raise AssertionError(f"nothing is to be parsed for {dataset}")


MANIFESTS = (
    b'{"attempt": "ID", "results": [{"task": "zz"}]}',
    b'{"attempt": "ID", "results": [{"task": ["zz"], "epoch": {}, "state": []}]}',
    b'{"attempt": "ID", "results": {"task": 1}}',
    b'{"attempt": "ID", "results": [[[[]]]]}',
    b"[" * 100_000,
    b"\xff\xfe",
    b"[1, 2]",
    b'"text"',
)


@pytest.mark.parametrize("body", MANIFESTS, ids=lambda body: body[:40].decode(errors="replace"))
def test_a_manifest_of_an_unexpected_shape_does_not_stop_the_loop(
    body: bytes, world: Attacked
) -> None:
    engine = world.engine
    assert isinstance(engine, Spoiling)
    engine.spoils = False
    claim = _claimed(world, "bad.x")
    world.lake.put_if_absent(
        f"{claim['prefix']}/{MANIFEST}", body.replace(b"ID", claim["attempt"].encode())
    )
    gone = Driver("dead", "kubernetes", "driver", 0.0, 0.0, ended=True, reason="killed")
    loop = _loop(world, world.lake, gone)
    loop.tick()
    with world.store.read() as tx:
        assert claim["attempt"] not in tx.queue.attempts()
    assert loop.failing_units.units == {}
    loop.close()
    assert set(world.go_on().values()) == {"up_to_date"}


class Unreadable:
    """A lake in which one attempt's manifest cannot be read, for a reason that stays."""

    def __init__(self, below: Lake, attempt: str) -> None:
        self._below, self._attempt = below, attempt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def stream(self, path: str) -> Iterator[bytes]:
        if self._attempt in path and path.endswith(MANIFEST):
            raise ValueError(path)
        return self._below.stream(path)


def test_an_attempt_that_cannot_be_rescued_is_told_and_given_up(world: Attacked) -> None:
    engine = world.engine
    assert isinstance(engine, Spoiling)
    engine.spoils = False
    claim = _claimed(world, "bad.x")
    gone = Driver("dead", "kubernetes", "driver", 0.0, 0.0, ended=True, reason="killed")
    lake = Unreadable(world.lake, claim["attempt"])
    loop = _loop(world, lake, gone)
    loop.tick()
    [unit] = loop.failing_units.units
    assert unit == f"attempt {claim['attempt']} of bad.x"
    while loop.failing_units.units:
        assert loop.failing_units.failures(unit) <= RESCUE_TRIES
        loop.tick()
    with world.store.read() as tx:
        assert claim["attempt"] not in tx.queue.attempts()
    loop.close()
    assert set(world.go_on().values()) == {"up_to_date"}


def _loop(world: Any, lake: Any, gone: Driver) -> Reconciler:
    """A loop whose pool tells that one driver is gone."""
    fleet = Fleet(Context(world.store), _as_lake(lake), Ended(drivers=(gone,)))
    return Reconciler(world.store, fleet, Nowhere(), WakeCounter())


def _as_lake(lake: Any) -> Any:
    return lake


# --- the decoder --------------------------------------------------------------------------------

HONEST: dict[str, Any] = {
    "task": "ab" * 32,
    "epoch": 1,
    "state": "done",
    "files": [
        {
            "path": "p/a.parquet",
            "size": 10,
            "rows": 2,
            "stats": {"numRecords": 2, "minValues": {"a": 1}},
        }
    ],
    "content": [2, 2**64 - 1, 0],
    "schema": {
        "type": "struct",
        "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}],
    },
    "metrics": {"dropped_rows": 1, "dropped": {"id": 1}},
    "outputs": None,
}


def test_what_an_honest_driver_writes_is_kept_as_it_is() -> None:
    assert wire.results([HONEST], "parse", "p") == ([HONEST], [])


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "p/../q/a.parquet", "q/a.parquet", "p//a", "p/./a", "p", 1, None]
)
def test_files_lie_below_the_prefix_of_their_attempt(path: object) -> None:
    spoilt_file = {**HONEST["files"][0], "path": path}
    [result] = wire.results([{**HONEST, "files": [spoilt_file]}], "parse", "p").results
    assert result["state"] == "failed"
    assert result["error"]["condition"] == "result-damaged"
    assert "results[0].files[0].path" in result["error"]["message"]


LINEAGE: dict[str, Any] = {
    "fields": {
        "a": {
            "inputFields": [
                {
                    "name": "in",
                    "field": "b",
                    "transformations": [{"type": "DIRECT", "subtype": "IDENTITY"}],
                },
            ]
        }
    },
    "dataset": [],
    "over_reported": ["a reason"],
}


def analysed(lineage: Any) -> Any:
    return {**HONEST, "result": {"schema": HONEST["schema"], "lineage": lineage}}


def test_lineage_of_an_honest_driver_is_kept_as_it_is() -> None:
    assert wire.results([analysed(LINEAGE)], "analyse", "p") == ([analysed(LINEAGE)], [])


@pytest.mark.parametrize(
    "lineage",
    [
        None,
        {},
        {**LINEAGE, "fields": []},
        {**LINEAGE, "fields": {"a": {}}},
        {**LINEAGE, "dataset": [{"name": "in", "field": 1, "transformations": []}]},
        {
            **LINEAGE,
            "dataset": [
                {"name": "in", "field": "b", "transformations": [{"type": "X", "subtype": "JOIN"}]}
            ],
        },
        {
            **LINEAGE,
            "dataset": [
                {"name": "in", "field": "b", "transformations": [{"type": "DIRECT", "subtype": []}]}
            ],
        },
        {**LINEAGE, "over_reported": [1]},
    ],
)
def test_lineage_of_another_form_is_refused(lineage: Any) -> None:
    [result] = wire.results([analysed(lineage)], "analyse", "p").results
    assert result["state"] == "failed"
    assert result["error"]["condition"] == "result-damaged"


@pytest.mark.parametrize("seed", range(400))
def test_any_value_is_decoded_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    value = spoilt(chance, HONEST) if seed % 2 else garbage(chance)
    decoded = wire.results(
        [value], chance.choice(["parse", "list", "index", "check", "infer", "write"]), "p"
    )
    assert len(decoded.results) + len(decoded.problems) == 1
    json.dumps(decoded.results, allow_nan=False).encode()
    for problem in decoded.problems:
        problem.encode()


@pytest.mark.parametrize("place", ["fifo", "folder", "link"])
def test_what_is_no_file_is_no_manifest(place: str, tmp_path: Path) -> None:
    """Opening a FIFO waits for who writes to it: the loop did, for good."""
    attempt = Attempt("a", "bad.x", "d", "parse", b"j" * 32, "p", {b"t" * 32: 1}, 0.0, 0.0)
    lake, path = LocalObjects(tmp_path), tmp_path / "p" / MANIFEST
    path.parent.mkdir()
    match place:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to(tmp_path / "nowhere")
    assert rescue.read_manifest(lake, attempt) == []


def test_a_manifest_names_no_more_results_than_there_are_tasks() -> None:
    many = json.dumps({"attempt": "a", "results": [{}] * 1_000}).encode()
    assert wire.manifest(many, "a", "parse", "p", 3).results == []
    assert "more results" in wire.manifest(many, "a", "parse", "p", 3).problems[0]
    wide = b'{"attempt": "a", "results": [' + b"[]," * 2_100_000 + b"[]]}"
    assert "values" in wire.manifest(wide, "a", "parse", "p", 3).problems[0]


def test_one_task_has_one_result() -> None:
    decoded = wire.results([HONEST, {**HONEST, "state": "void"}], "parse", "p")
    assert (len(decoded.results), len(decoded.problems)) == (1, 1)


def test_work_that_reads_no_source_objects_is_not_void() -> None:
    [result] = wire.results([{**HONEST, "state": "void"}], "list", "p").results
    assert result["state"] == "failed"


def test_files_of_every_output_are_looked_for() -> None:
    gone = {"files": HONEST["files"], "content": [0, 0, 0], "schema": HONEST["schema"]}
    dealt: Any = {
        **HONEST,
        "files": [],
        "outputs": {"k=1": gone},
        "quarantine": gone,
        "then": [{**gone, "task": "c"}],
    }
    assert len(reports._files_of(dealt)) == 3


def test_errors_of_drivers_can_be_stored_and_are_of_bounded_length() -> None:
    told = {**infrastructure_error("X\0", "\ud800" * 100_000), "detail": "a\0" * 1_000_000}
    [result] = wire.results([{**HONEST, "state": "failed", "error": told}], "parse", "p").results
    error = result["error"]
    assert error["condition"] == "X\ufffd"
    assert len(error["message"].encode()) < 20_000
    assert len(error["detail"]) < 100_000

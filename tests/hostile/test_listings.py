"""Listings of some dataflows, against those of others: hung, many, or in code that harms its
process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from controlplane.cli import views
from controlplane.core.model.answers.status import LeaderStatus
from controlplane.drivers.external import ExternalPool
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import controls
from controlplane.operations.desired.blueprints import SentBlueprint, apply
from controlplane.operations.inspect import overview
from controlplane.operations.work import claims, reports
from controlplane.ports.store import Store
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from dataplane.contract.claims import CONTRACT, Claim
from dataplane.contract.kinds import PROBE_KINDS, Kind
from dataplane.contract.results import Measures, TaskResult
from dataplane.contract.schemas import Json
from dataplane.listing.version_cache import Versions
from dataplane.runtime import listing_child
from dataplane.runtime.client import Ended, Heartbeat, Reported
from dataplane.runtime.heartbeats import Orders
from dataplane.runtime.worker import WAITS, perform, run
from dataplane.runtime.worker_slots import Slots
from tests.stores import store_at
from tests.unit.reconciler.nowhere import Nowhere

pytestmark = pytest.mark.hostile
HANGS_S = 120.0
FLOW = """
dataflow: {flow}
components:
{reads}
"""
READ = """
  {name}:
    read:
      connector: files
      path: {folder}/*.csv
      format: csv
      schema: x INT
      refresh: 5s
"""


# --- one worker -----------------------------------------------------------------------------------


class Queue:
    """Hands out claims as a control plane does, and ends the worker when all were reported."""

    def __init__(self, claims: Iterable[Claim]) -> None:
        self.waiting = list(claims)
        self.left = len(self.waiting)
        self.states: dict[str, str] = {}  # by attempt
        self.changed = threading.Condition()

    def claim(
        self, kinds: Iterable[Kind], wait_s: float, without: Collection[str] = ()
    ) -> Claim | None:
        with self.changed:
            if set(kinds) != WAITS:
                assert self.changed.wait_for(lambda: not self.left, HANGS_S)
            for claim in self.waiting:
                if claim["dataset"].partition(".")[0] not in without:
                    self.waiting.remove(claim)
                    return claim
            if not self.left:
                raise Ended("401")
            self.changed.wait(0.05)
            return None

    def heartbeat(self, attempts: Iterable[str]) -> Heartbeat:
        return Heartbeat()

    def report(
        self, attempt: str, results: Sequence[TaskResult], measures: Measures | None = None
    ) -> Reported:
        with self.changed:
            self.states[attempt] = results[0]["state"]
            self.left -= 1
            self.changed.notify_all()
        return Reported((), ())

    def wait_for(self, attempts: Collection[str]) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.states.keys() >= set(attempts), HANGS_S)


def claim(flow: str, attempt: str, job: Json, kind: Kind = "list") -> Claim:
    found = {
        "contract": 1,
        "attempt": attempt,
        "dataset": f"{flow}.rows",
        "prefix": f"default/{flow}/rows/_frags/01/{attempt}",
        "lake": "file:///nowhere",
        "lease_s": 60.0,
        "kind": kind,
        "job": job,
        "tasks": [{"task": f"{7:064x}", "epoch": 1, "partition": ""}],
    }
    return cast("Claim", found)


def in_code(*lines: str) -> Json:
    text = "\n".join(("def list(context):", *(f"    {line}" for line in lines), "    return []"))
    settings = {"modules": json.dumps({"api.py": text}), "main": "api.py", "params": "{}"}
    return {"connector": "python", "settings": settings, "place": "api.py"}


def listed(*lines: str) -> TaskResult:
    [result] = perform(claim("bad", "1", in_code(*lines)), Versions(), Orders())
    return result


def test_listings_that_hang_leave_slots_to_other_dataflows(tmp_path: Path) -> None:
    gates = [tmp_path / f"gate-{i}" for i in range(6)]
    for gate in gates:
        os.mkfifo(gate)
    (tmp_path / "a.csv").write_text("x\n")
    hung = [
        claim("hung", f"hung-{i}", in_code(f"open({str(gate)!r}).read()"))
        for i, gate in enumerate(gates)
    ]
    files: Json = {
        "location": f"{tmp_path}/*.csv",
        "format": "csv",
        "options": {},
        "partition": None,
    }
    others = [claim(f"flow{i}", f"other-{i}", files) for i in range(20)]
    queue = Queue([*hung, *others])
    worker = threading.Thread(target=run, args=(queue, 4), daemon=True)
    worker.start()
    assert queue.wait_for([c["attempt"] for c in others]), queue.states
    assert not any(attempt.startswith("hung") for attempt in queue.states)
    with queue.changed:
        assert sum(c["dataset"] == "hung.rows" for c in queue.waiting) == 4, (
            "two of four slots, and no more"
        )
        queue.left -= len(queue.waiting)
        queue.waiting.clear()
    for gate in gates[:2]:
        gate.write_text("")  # as soon as its reader is there
    assert queue.wait_for(["hung-0", "hung-1"])
    worker.join(HANGS_S)
    assert not worker.is_alive()


def test_hung_dataflows_halve_what_is_left() -> None:
    slots, gate = Slots(16), threading.Event()
    taken = dict.fromkeys("abcd", 0)
    for flow in taken:
        while flow not in slots.full():
            slots.start(flow, gate.wait)  # type: ignore[arg-type]  # what it returns is nobody's
            taken[flow] += 1
    assert taken == {"a": 8, "b": 4, "c": 2, "d": 1}
    slots.wait_for_one()
    gate.set()
    slots.join()
    assert slots.full() == frozenset()


@pytest.mark.parametrize(
    ("lines", "condition"),
    [
        (("import os", "os._exit(3)"), "listing-died"),
        (("import os", "os.kill(os.getpid(), 9)"), "listing-died"),
        (("import sys", "sys.exit(0)"), "SystemExit"),
        (("x = bytearray(8 << 30)",), "MemoryError"),
        (("raise KeyboardInterrupt",), "listing-died"),
    ],
)
def test_code_that_ends_its_process_ends_no_worker(lines: tuple[str, ...], condition: str) -> None:
    result = listed(*lines)
    assert (result["state"], result["error"]["condition"]) == ("failed", condition)


def test_what_code_does_to_its_process_stays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADGATE_TOKEN_FILE", "/somewhere/token")
    monkeypatch.setenv("HEADGATE_URL", "http://127.0.0.1:1")
    before = os.getcwd(), dict(os.environ)
    result = listed(
        "import os",
        "assert not {'HEADGATE_TOKEN_FILE', 'HEADGATE_URL'} & os.environ.keys(), 'the token is here'",
        f"os.chdir({str(tmp_path)!r})",
        "os.environ['HEADGATE_HOME'] = 'x'",
        "print('[]')",
        "os.write(1, b'[]')",
    )
    assert result["state"] == "done", result
    assert (os.getcwd(), dict(os.environ)) == before


def test_a_secret_in_an_error_of_code_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SECRET_API_TOKEN", "hunter2-4711")
    job = in_code("raise ValueError(context.params['token'])")
    job["settings"]["params"] = json.dumps({"token": "secret://api/token"})
    [result] = perform(claim("bad", "1", job), Versions(), Orders())
    assert "hunter2" not in json.dumps(result)
    assert "***" in result["error"]["message"]


def test_code_that_goes_on_for_too_long_is_ended(tmp_path: Path) -> None:
    job = in_code("import threading", "threading.Event().wait()")
    [result] = listing_child.perform(claim("bad", "1", job), Orders(), longest_s=0.0)
    assert result["error"]["condition"] == "listing-timeout"


def test_code_of_a_fenced_attempt_is_ended(tmp_path: Path) -> None:
    gate, orders = tmp_path / "gate", Orders()
    os.mkfifo(gate)
    job = in_code(
        "import threading", f"open({str(gate)!r}, 'w').close()", "threading.Event().wait()"
    )
    found: list[list[TaskResult]] = []
    thread = threading.Thread(
        target=lambda: found.append(listing_child.perform(claim("bad", "1", job), orders)),
        daemon=True,
    )
    thread.start()
    gate.read_text()  # it is at work
    orders.fence()
    thread.join(HANGS_S)
    assert found == [[]]


# --- the control plane ----------------------------------------------------------------------------


@dataclass
class Place:
    """A control plane without processes, whose clock stands still."""

    folder: Path
    now: float = 1_000_000.0
    store: Store = field(init=False)
    wake: WakeCounter = field(default_factory=WakeCounter)

    def __post_init__(self) -> None:
        url = f"sqlite:///{self.folder / 'metadata.db'}"
        self.store = store_at(url, lambda: self.now)
        self.ctx = Context(self.store, wake=self.wake.notify)
        self.lake = open_lake((self.folder / "lake").as_uri())
        self.loop = Reconciler(
            self.store, Fleet(Context(self.store), self.lake, ExternalPool()), Nowhere(), self.wake
        )
        self.cache = Versions(self.folder / "cache.db")

    def apply(self, *flows: tuple[str, int]) -> None:
        """Dataflows with so many sources each."""
        apply(self.ctx, "main", [self._flow(*flow) for flow in flows])

    def _flow(self, flow: str, sources: int) -> SentBlueprint:
        folders = [self.folder / flow / f"s{i}" for i in range(sources)]
        for folder in folders:
            folder.mkdir(parents=True)
            (folder / "a.csv").write_text("1\n")
        reads = "".join(READ.format(name=folder.name, folder=folder) for folder in folders)
        return SentBlueprint(f"/{flow}.yaml", FLOW.format(flow=flow, reads=reads), {})

    def claim(self) -> Claim | None:
        return claims.claim(self.ctx, "worker", CONTRACT, sorted(PROBE_KINDS), lake=self.lake.uri)

    def claims(self) -> list[Claim]:
        return list(iter(self.claim, None))

    def serve(self, claim: Claim) -> None:
        reports.report(
            self.ctx,
            "worker",
            claim["attempt"],
            perform(claim, self.cache, Orders()),
            lake=self.lake,
        )

    def counted(self, name: str, most: int, times: int = 1) -> None:
        assert self.store.statements - self.mark <= most * times, (
            f"{name}: {self.store.statements - self.mark}"
        )

    mark: int = 0

    def begin(self) -> None:
        self.mark = self.store.statements


def test_one_dataflow_with_many_sources_does_not_delay_another(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.apply(("many", 200))
    place.loop.tick()
    for _ in range(5):
        found = place.claim()
        assert found
    place.now += 10  # of the many, ten have had their turn by now
    place.apply(("few", 2))
    place.loop.tick()
    order = [claim["dataset"].partition(".")[0] for claim in place.claims()]
    assert order.count("many") == 195
    assert [i for i, flow in enumerate(order) if flow == "few"] == [5, 7]
    place.store.close()


def test_status_tells_how_late_listings_are(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.apply(("flow", 2))
    place.loop.tick()
    place.now += 100
    [first, *_] = place.claims()
    place.serve(first)
    place.now += 65
    datasets = overview.status(place.ctx, "main")["dataflows"][0]["datasets"]
    late = {d["name"]: d["listing"]["behind_s"] for d in datasets}
    served = first["dataset"]
    assert {name: late[name] for name in sorted(late)} == {
        n: 60.0 if n == served else 165.0 for n in sorted(late)
    }
    leader: LeaderStatus = {
        "holder": "a scheduler",
        "epoch": 1,
        "since": "2026-11-26T12:00:00+00:00",
    }
    status = views.status({**overview.status(place.ctx, "main"), "leader": leader})
    lines = [line for part in status for line in getattr(part, "lines", ())]
    [other] = late.keys() - {served}
    assert any(
        f"late: {other}: its listing is 165 s behind; never listed; a worker is at it" in x
        for x in lines
    )
    controls.pause(place.ctx, "main", "flow")
    datasets = overview.status(place.ctx, "main")["dataflows"][0]["datasets"]
    assert [d["listing"]["behind_s"] for d in datasets] == [0.0, 0.0]
    place.store.close()


def test_what_is_queued_already_costs_a_pass_next_to_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.apply(*((f"flow{i}", 1) for i in range(400)))
    place.loop.tick()
    place.loop.tick()
    place.begin()
    assert not place.loop.tick().changed
    place.counted("a pass over 400 open listings", 12)
    place.store.close()


def test_unchanged_listings_cost_few_statements_and_wake_nobody(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.apply(*((f"flow{i}", 1) for i in range(40)))
    place.loop.tick()
    for claim in place.claims():
        place.serve(claim)
    while place.loop.tick().changed:
        pass
    place.now += 6
    place.loop.tick()
    place.begin()
    claims = place.claims()
    assert len(claims) == 40
    place.counted("claims", 10, 41)
    place.begin()
    nudges = place.wake.count
    for claim in claims:
        place.serve(claim)
    place.counted("reports", 20, 40)
    assert place.wake.count == nudges
    assert not place.loop.tick().changed
    place.store.close()

"""Two equal services over one PostgreSQL and one lake: the leader dies, is paused, or ends, and the
other goes on.

Drivers are not theirs: the test does their work over HTTP, through whichever service answers.
"""

from __future__ import annotations

import json
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx2
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from controlplane.core.model.leases import LOOP
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.upkeep.fsck import fsck
from controlplane.ports.store import Store
from controlplane.store import open_store, upgrade
from dataplane.contract.claims import CONTRACT, Claim, ParseTask, TaskSpec
from dataplane.contract.identity import label_of
from dataplane.contract.results import MANIFEST, FileEntry, TaskResult
from dataplane.contract.schemas import field_of, struct_of
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from tests.e2e.workspace import Service, Workspace, until
from tests.servers.postgres import Postgres, running
from tests.slices import takes_turns
from tests.there import there

TABLE = "shop.orders"
SHOP = """\
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: {folder}/*.csv
      format: csv
      options: {{header: true}}
      schema: id BIGINT
      refresh: 1s
"""
SCHEMA = struct_of([field_of("id", "long")])


@dataclass(frozen=True)
class Shop:
    """Two places to serve from, what they share, and a look at it that asks none of them."""

    folder: Path
    homes: tuple[Workspace, Workspace]
    store: Store

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    def put(self, number: int) -> None:
        (self.folder / "orders" / f"{number}.csv").write_text(f"id\n{number}\n")

    def leader(self) -> str:
        """The home of who leads; empty if nobody does."""
        with self.store.read() as tx:
            lease, now = tx.leases.get(LOOP), tx.now()
        return lease.holder.partition("/")[2] if lease is not None and lease.until > now else ""

    def leads(self, home: Workspace) -> None:
        until(lambda: self.leader() == instance(home), lambda: f"{self.leader()} leads")

    def published(self, generation: int) -> None:
        """The table holds this generation, and has all generations to it in their order, each
        once."""

        def there() -> bool:
            with self.store.read() as tx:
                found = tx.projections.publications("main", [TABLE]).get(TABLE)
            return found is not None and found.generation >= generation and found.error is None

        until(there, lambda: f"generation {generation} is not published")
        log = DeltaTable(str(self.lake / "default" / "shop" / "orders"))
        seen = [entry["generation"] for entry in reversed(log.history())]
        assert seen == list(range(1, generation + 1))
        with self.store.read() as tx:
            states = tx.states.history("main", TABLE, 100)
        assert {s.generation for s in states} == set(range(1, generation + 1))
        assert len({(s.generation, s.root) for s in states}) == generation

    def check(self) -> None:
        """Nothing is left over, and all that is said is so."""
        with self.store.read() as tx:
            assert tx.queue.attempts() == {}
            assert tx.events.count("main", 0)["task.executed"] == len(
                list((self.folder / "orders").iterdir())
            )
        assert fsck(self.store, "default", open_lake(self.lake.as_uri())) == ()


def instance(home: Workspace) -> str:
    return (home.home / "instance").read_text().strip()


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with running() as own:
        yield own


@pytest.fixture
def shop(server: Postgres, tmp_path: Path) -> Iterator[Shop]:
    url = server.create(f"t{uuid.uuid4().hex}")
    upgrade(url)
    environment = {
        "HEADGATE_DATABASE_URL": url,
        "HEADGATE_LAKE": (tmp_path / "lake").as_uri(),
        "HEADGATE_POOL": "none",
        "HEADGATE_LEASE_S": "3",
    }
    for name in ("orders", "lake", "a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "shop.yaml").write_text(SHOP.format(folder=tmp_path / "orders"))
    first, second = (Workspace(tmp_path / name, environment=environment) for name in "ab")
    store = open_store(url)
    try:
        yield Shop(tmp_path, (first, second), store)
    finally:
        store.close()
        first.end_all()
        second.end_all()


# --- a data plane in this process -----------------------------------------------------------------


@contextmanager
def working(shop: Shop, url: str) -> Iterator[None]:
    """Somebody works who calls this service."""
    driver = f"driver-{uuid.uuid4().hex[:12]}"
    token, _ = tokens.create(Context(shop.store), driver, ("driver",), subject=driver)
    stop, headers = threading.Event(), {"Authorization": f"Bearer {token}"}
    with httpx2.Client(
        base_url=f"{url}/v1/driver", headers=headers, trust_env=False, timeout=60
    ) as http:
        thread = threading.Thread(target=work, args=[http, stop, shop.lake])
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


def work(http: httpx2.Client, stop: threading.Event, lake: Path) -> None:
    versions = Versions()
    while not stop.is_set():
        try:
            found = http.post(
                "/claim", json={"contract": CONTRACT, "kinds": ["list", "parse"], "wait_s": 1.0}
            )
            if found.status_code == 200:
                claim: Claim = found.json()
                results = [result(claim, task, lake, versions) for task in claim["tasks"]]
                note(claim, results, lake)
                http.post("/report", json={"attempt": claim["attempt"], "results": results})
        except httpx2.TransportError:
            stop.wait(0.1)  # nobody is there, or any more


def result(claim: Claim, task: TaskSpec, lake: Path, versions: Versions) -> TaskResult:
    done: TaskResult = {"task": task["task"], "epoch": task["epoch"], "state": "done"}
    if claim["kind"] == "list":
        return {**done, "result": list_files(claim["job"], versions)}
    (source,) = (o["uri"].removeprefix("file://") for o in cast("ParseTask", task)["objects"])
    rows = pyarrow.csv.read_csv(source)
    path = f"{claim['prefix']}/_fragment={label_of(bytes.fromhex(task['task']))}/0.parquet"
    (lake / path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, lake / path)
    files: list[FileEntry] = [
        {"path": path, "size": (lake / path).stat().st_size, "rows": rows.num_rows, "stats": {}}
    ]
    content = [rows.num_rows, int(rows["id"][0].as_py()), 0]
    return {**done, "schema": SCHEMA, "content": content, "files": files}


def note(claim: Claim, results: list[TaskResult], lake: Path) -> None:
    if claim["kind"] == "parse":
        manifest = {
            "contract": CONTRACT,
            "attempt": claim["attempt"],
            "results": results,
            "versions": {},
        }
        (lake / claim["prefix"] / MANIFEST).write_text(json.dumps(manifest))


# --- what becomes of the leader -------------------------------------------------------------------


# Two ways for a lease to go over; what it allows is asked of each store in tests/store
@takes_turns(0, 2)
def test_the_leader_is_killed_between_a_commit_and_its_publication(shop: Shop) -> None:
    first, second = shop.homes
    shop.put(1)
    with ExitStack() as ends:
        doomed = ends.enter_context(first.serving(HEADGATE_FAILPOINTS="before-publish"))
        shop.leads(first)
        waiting = ends.enter_context(second.serving())
        with waiting.client() as client:
            holder = there(client.status()["leader"])["holder"]
            assert holder.endswith(f"/{instance(first)}"), "the other waits, and says who leads"
            assert f'headgate_leader_epoch{{holder="{holder}"}} 1.0' in metrics(waiting)
        apply(doomed, first)
        ends.enter_context(working(shop, waiting.url))
        assert doomed.process.wait() == -signal.SIGKILL
        shop.leads(second)
        shop.published(1)
        shop.put(2)
        shop.published(2)
    shop.check()


@takes_turns(1, 2)
def test_a_paused_leader_writes_nothing_when_it_goes_on_and_one_that_ends_hands_over(
    shop: Shop,
) -> None:
    first, second = shop.homes
    shop.put(1)
    with ExitStack() as ends:
        one = ends.enter_context(first.serving())
        shop.leads(first)
        other = ends.enter_context(second.serving())
        apply(one, first)
        ends.enter_context(working(shop, other.url))
        shop.published(1)
        one.process.send_signal(signal.SIGSTOP)
        shop.leads(second)
        shop.put(2)
        shop.published(2)
        one.process.send_signal(signal.SIGCONT)
        said = first.folder / "serve.log"
        until(lambda: "leads no more" in said.read_text(), said.read_text)
        shop.put(3)
        shop.published(3)
        with one.client() as client:
            assert there(client.status()["leader"])["epoch"] == 2
        assert other.stop(signal.SIGTERM) == 0
        shop.leads(first)
        with shop.store.read() as tx:
            lease = tx.leases.get(LOOP)
        assert lease is not None
        assert lease.epoch == 3
    shop.check()


def apply(service: Service, home: Workspace) -> None:
    home.call("apply", "shop.yaml", HEADGATE_URL=service.url, HEADGATE_TOKEN=service.token)


def metrics(service: Service) -> str:
    headers = {"Authorization": f"Bearer {service.token}"}
    return httpx2.get(f"{service.url}/metrics", headers=headers, trust_env=False).text

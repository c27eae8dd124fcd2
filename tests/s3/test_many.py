"""A hundred thousand small objects: listed as a stream, and again without a look at any; grouped,
few partitions.

Ungrouped, each is a partition that planning knows of, from the listing to what would run.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import obstore
import pytest

from controlplane.drivers.external import ExternalPool
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.inspect import overview
from controlplane.operations.work import claims, reports
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import WINDOW, Reconciler
from controlplane.reconciler.wake import WakeCounter
from controlplane.store import open_store, upgrade
from dataplane.contract.claims import CONTRACT
from dataplane.contract.jobs import ListJob
from dataplane.contract.results import TaskResult
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import ListingResult
from dataplane.listing.files import list_files
from dataplane.listing.version_cache import Versions
from dataplane.storage.source_stores import StoreAccess, open_root
from tests.s3.conftest import point
from tests.servers.s3 import S3
from tests.unit.reconciler.nowhere import Nowhere

pytestmark = pytest.mark.soak
FOLDERS, EACH = 100, 1000


@pytest.fixture(scope="module")
def many(s3: S3) -> str:
    root = s3.home / "data" / "lake" / "many"
    for folder in range(FOLDERS):
        (root / f"{folder:03}").mkdir(parents=True)
        for number in range(EACH):
            (root / f"{folder:03}" / f"{number:04}.json").write_bytes(b'{"n": 1}\n')
    return "s3://lake/many"


def listed(
    uri: str, cache: Versions, place: Path | None = None, settings: Json = None
) -> tuple[ListingResult, float]:
    job = {"location": f"{uri}/*/*.json", "format": "json", "options": {}, "settings": settings}
    began = time.perf_counter()
    found = list_files(cast("ListJob", job), cache, None if place is None else lambda: place)
    return found, time.perf_counter() - began


def test_a_hundred_thousand_objects(
    many: str, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point(monkeypatch, s3.environment())
    open_root.cache_clear()
    cache = Versions(tmp_path / "versions.db")
    first, first_s = listed(many, cache, tmp_path / "first")
    again, again_s = listed(many, cache, tmp_path / "again")
    began = time.perf_counter()
    bare = sum(
        len(page)
        for page in obstore.list(
            open_root("s3://lake", StoreAccess()), prefix="many", chunk_size=1000
        )
    )
    bare_s = time.perf_counter() - began
    assert first["objects"] == again["objects"] == bare == FOLDERS * EACH
    assert first["digest"] == again["digest"]
    print(f"first {first_s:.1f} s, again {again_s:.1f} s, by obstore alone {bare_s:.1f} s")  # noqa: T201
    by_folder, _ = listed(many, cache, settings={"group.by": "folder"})
    by_size, _ = listed(many, cache, settings={"group.by": "size", "group.bytes": 64 << 20})
    assert len(by_folder["partitions"]) == FOLDERS
    assert len(by_size["partitions"]) <= 200


# --- a partition for each -------------------------------------------------------------------------

SHOP = """\
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: {uri}/*/*.json
      format: json
      schema: n BIGINT
      storage: {{endpoint: "{endpoint}", region: us-east-1}}
  known: {{transform: {{sql: SELECT n FROM orders}}}}
"""


class Planned(NamedTuple):
    """Partitions that would be read; SQL statements that it took to say so; tasks that then wait
    for a driver."""

    partitions: int
    statements: int
    waiting: int


@dataclass
class Shop:
    """A control plane, and a worker that lists. Nobody computes anything."""

    ctx: Context
    loop: Reconciler
    lake: LocalObjects
    versions: Versions

    def look(self) -> None:
        """List anew, from the request until the report is taken in."""
        controls.refresh(self.ctx, "main", "shop.orders")
        self.loop.tick()
        claim = claims.claim(self.ctx, "worker", CONTRACT, ["list"])
        assert claim is not None
        assert claim["kind"] == "list"
        (task,) = claim["tasks"]
        place = self.lake.root / claim["prefix"] / "listing.jsonl.gz"
        found = list_files(claim["job"], self.versions, lambda: place)
        done: TaskResult = {
            "task": task["task"],
            "epoch": task["epoch"],
            "state": "done",
            "result": found,
        }
        reports.report(self.ctx, "worker", claim["attempt"], [done], lake=self.lake)

    def planned(self) -> Planned:
        before = self.ctx.store.statements
        plan = overview.plan(self.ctx, "main")
        took = self.ctx.store.statements - before
        self.loop.tick()
        with self.ctx.store.read() as tx:
            waiting = tx.queue.backlog()["parse"]
        (count,) = (i["count"] for i in plan["items"] if i["dataset"] == "shop.orders")
        return Planned(count, took, waiting)


def test_each_is_a_partition_to_plan(
    many: str, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point(monkeypatch, s3.environment())
    url = f"sqlite:///{tmp_path / 'metadata.db'}"
    upgrade(url)
    store, lake = open_store(url), LocalObjects(tmp_path)
    loop = Reconciler(store, Fleet(Context(store), lake, ExternalPool()), Nowhere(), WakeCounter())
    shop = Shop(Context(store), loop, lake, Versions(tmp_path / "versions.db"))
    text = SHOP.format(uri=many, endpoint=s3.url)
    blueprints.apply(shop.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", text, {})])
    shop.look()
    first = shop.planned()
    shop.look()
    again = shop.planned()
    folder = s3.home / "data" / "lake" / "many" / "000"
    (folder / "late.json").write_bytes(b'{"n": 2}\n')
    (folder / "0001.json").write_bytes(b'{"n": 30}\n')
    (folder / "0002.json").unlink()
    (folder / "0003.json").unlink()
    shop.look()
    changed = shop.planned()
    store.close()
    found = (first, again, changed)
    assert [one.partitions for one in found] == [FOLDERS * EACH, FOLDERS * EACH, FOLDERS * EACH - 1]
    assert {one.waiting for one in found} == {WINDOW}
    assert max(one.statements for one in found) <= 12

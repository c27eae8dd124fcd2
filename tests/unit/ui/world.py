"""A home that pages are looked at in: two dataflows with a copy, what failed and what that blocks,
hostile texts.

SQLite stands in Spark's place. Does not belong here: what pages should say of it.
"""

from __future__ import annotations

import atexit
import json
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from pathlib import Path

import httpx2

from controlplane.api.services import Services
from controlplane.core.model.leases import LOOP, Lease
from controlplane.core.model.projections import Publication
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, branches, feeds, tokens
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.planning.planner import Planner
from controlplane.ports.records import RenderRecords, WantedRows
from controlplane.reconciler.wake import WakeCounter
from dataplane.contract.identity import schema_id
from tests.unit.api.world import serving
from tests.unit.expectations.world import World

START = date(2025, 1, 1)
DAYS = 60
IN_USE = "in-use"
YEAR_S = 365 * 86_400.0
HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "\"><svg onload=document.title='owned'>",
    "{{ 7 * 7 }} {% raw %} ${7*7}",
    "' onmouseover='document.title=1",
    "javascript:document.title='owned'",
    "</title></textarea></code></pre><h1>out</h1>",
    "\u202egnp.exe \u0000 \u200b &lt;b&gt; &amp;",
)
SHOP = """
  dear: {{transform: {{sql: "SELECT k, v AS price FROM orders WHERE v > 20"}}, description: Orders that cost much,
         owner: ada, tags: [money, daily]}}
  spent: {{transform: {{sql: "SELECT k, sum(price) AS total FROM dear GROUP BY k", partition_by: [k]}}}}
  grand: {{transform: {{sql: "SELECT sum(total) AS t, count(*) AS n FROM spent"}}, description: One row,
          freshness: 30s}}
  told: {{transform: {{sql: "SELECT k, {cells} FROM orders WHERE v < 3"}}, description: {description}}}
  strict: {{transform: {{sql: "SELECT k, v FROM orders"}}, expect: [{{check: "v < 50", on_fail: fail}}]}}
  after_strict: {{transform: {{sql: "SELECT sum(v) AS v FROM strict"}}}}
  export: {{write: {{connector: files, from: dear, path: {home}/export, format: json}}}}
"""
OTHER = """
dataflow: other
description: Reads what another dataflow makes
components:
  monthly: {transform: {sql: "SELECT sum(t) AS t FROM shop.grand"}}
"""


@dataclass(frozen=True)
class Pages:
    """A service of such a home."""

    url: str
    services: Services
    token: str
    world: World

    def http(self, *, signed_in: bool = True) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.token}"} if signed_in else {}
        return httpx2.Client(base_url=self.url, headers=headers, trust_env=False, timeout=60)

    def late_file(self) -> None:
        """Arrives, and everything follows."""
        self.world.put(f"{START + timedelta(days=DAYS)}.csv", (1, 30))
        self.world.settle()
        publish(self.world)
        self.services.wake.notify()


def filled(home: Path, *, url: str | None = None) -> World:
    world = World(home, url=url)
    world.now = 1_764_000_000.0
    for i in range(DAYS):
        day = START + timedelta(days=i)
        rows = [(k, (i * 7 + k * 3) % 60) for k in range(1 + i % 9)]
        world.put(f"{day}.csv", *rows)
    cells = ", ".join(f"'{_quoted(text)}' AS c{i}" for i, text in enumerate(HOSTILE[:-1]))
    text = SHOP.format(
        cells=cells.replace("\\", "\\\\").replace('"', '\\"'),
        description=json.dumps(HOSTILE[0]),
        home=home,
    )
    world.apply(text)
    world.settle()
    blueprints.apply(world.ctx, "main", [blueprints.SentBlueprint("/other.yaml", OTHER, {})])
    world.settle()
    publish(world)
    feeds.create(world.ctx, "grand", "shop.grand")
    for namespace, flows in (("default", "o*"), ("team-b", "*")):
        feeds.grant(world.ctx, "grand", namespace, flows)
    branches.create(world.ctx, "dev")
    lead(world)
    edited = OTHER.replace("sum(t)", "max(t) + 1").replace(
        "Reads", HOSTILE[1].replace('"', "'") + " reads"
    )
    blueprints.apply(world.ctx, "dev", [blueprints.SentBlueprint("/other.yaml", edited, {})])
    compute(world, "dev")
    return world


def lead(world: World) -> Lease:
    """A scheduler is there, as far as the database knows."""
    with world.store.begin() as tx:
        return tx.leases.take(LOOP, "pod-1/ab12", 10 * YEAR_S)


def compute(world: World, branch: str) -> None:
    """What the branch has of its own, until nothing is left to do."""
    executor = PlanExecutor(world.store, Planner(world.store, branch=branch), "default", branch)
    while executor.settle().changed or world.work():
        world.now += 100.0


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def publish(world: World) -> None:
    """Tables follow, as a publisher would have it."""
    with world.store.begin() as tx:
        for name, state in tx.states.newest("main").items():
            tx.projections.put_publication(
                Publication(
                    "main",
                    name,
                    state.generation,
                    state.root,
                    schema_id(state.schema),
                    state.generation,
                )
            )


def rendered(world: World) -> RenderRecords:
    """Rows of the files that the engine wrote, as the API's JSON."""

    def render(selection: WantedRows) -> Iterator[bytes]:
        names = [field["name"] for field in selection.schema["fields"]]
        rows = [
            dict(zip(names, row, strict=True))
            for file in selection.files
            for row in world.engine.fragment(file).under(tuple(names))
        ]
        yield json.dumps(rows[: selection.limit]).encode()

    return render


@contextmanager
def pages(home: Path | None = None) -> Iterator[Pages]:
    """A service of a filled home; without a home, of a copy of one (`copied`)."""
    with nullcontext(filled(home)) if home else copied() as world, served(world) as home_pages:
        yield home_pages


@contextmanager
def served(world: World) -> Iterator[Pages]:
    """A service of this world, whose store is closed at the end."""
    services = Services(
        world.store,
        open_lake(str(world.home)),
        WakeCounter(),
        rendered(world),
        lambda driver, lines: "a log",
    )
    token, _ = tokens.create(Context(world.store), "ada", ("admin",))
    with serving(services) as url:
        yield Pages(url, services, token, world)
    world.store.close()


@contextmanager
def copied() -> Iterator[World]:
    """A copy of a world that was filled once in this process: filling takes a second. Its files
    stay where they are, since blueprints name them: there is one copy at a time."""
    template = _template()
    (template.home / IN_USE).mkdir()
    try:
        yield template.copy()
    finally:
        (template.home / IN_USE).rmdir()
        if not template.restore():
            _template.cache_clear()


@dataclass(frozen=True)
class Template:
    """A filled world, its database in one file, and the files that it lists."""

    world: World
    database: Path
    files: dict[str, tuple[int, int]]

    @property
    def home(self) -> Path:
        return self.world.home

    def copy(self) -> World:
        database = self.home / "copy.db"
        for suffix in ("", "-wal", "-shm"):
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        shutil.copyfile(self.database, database)
        world = World(self.home, url=f"sqlite:///{database}")
        world.now, world.kinds = self.world.now, Counter(self.world.kinds)
        world.lake.objects.update(self.world.lake.objects)
        engine = self.world.engine
        world.engine = replace(
            engine,
            ctx=world.ctx,
            lake=world.lake,
            done=list(engine.done),
            targets=deepcopy(engine.targets),
            fences=dict(engine.fences),
        )
        return world

    def restore(self) -> bool:
        """Remove files that a copy has put there; False if it has changed others."""
        for name in _listed(self.home).keys() - self.files.keys():
            (self.home / "orders" / name).unlink()
        return _listed(self.home) == self.files


@cache
def _template() -> Template:
    home = Path(tempfile.mkdtemp(prefix="headgate-pages-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    world, database = filled(home, url=f"sqlite:///{home}/filled.db"), home / "template.db"
    world.store.close()
    with closing(sqlite3.connect(home / "filled.db")) as connection:
        connection.execute("VACUUM INTO ?", [str(database)])
    return Template(world, database, _listed(home))


def _listed(home: Path) -> dict[str, tuple[int, int]]:
    """The inode and time of each file of orders."""
    return {
        path.name: (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in (home / "orders").iterdir()
    }


def break_text(home: Pages, flow: str, edit: tuple[str, str]) -> None:
    """Stores a text that this version refuses, as one of an older version could be."""
    with home.world.store.begin() as tx:
        revision = tx.blueprints.revisions("main")[flow]
        broken = replace(revision, number=revision.number + 1, text=revision.text.replace(*edit))
        tx.blueprints.put(broken, revision.number)

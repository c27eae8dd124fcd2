"""Each kind of damage is planted, and found: exactly that."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, delete, insert, update

from controlplane.core import tree
from controlplane.core.model.projections import Target, unknown_table
from controlplane.core.model.sources import SourcePartition
from controlplane.core.model.states import PartialState
from controlplane.core.model.tasks import Fragment
from controlplane.operations.upkeep.fsck import FIXES, Finding, fsck
from controlplane.operations.upkeep.orphans import sweep
from controlplane.ports.store import Store, Tx
from controlplane.store import open_store, upgrade
from controlplane.store.sql import tables as db
from dataplane.contract.identity import Content
from dataplane.contract.results import FileEntry, Misread
from tests.property.engine import MemoryLake
from tests.store.conftest import World
from tests.store.examples import (
    SCHEMA,
    d,
    fragment,
    listing,
    source_partition,
    state,
    stored_job,
    task,
    trace,
)
from tests.store.planner import check_everything

PARTITIONS = 1500


@cache
def made(n: int) -> Fragment:
    """A fragment of two files; every hundred were written by one attempt, the last of them as a
    follower's."""
    attempt = f"aa{n // 100:030}"
    dataset = "late" if n % 100 == 99 else "daily"
    folder = f"default/flights/{dataset}/_frags/aa/{attempt}/_fragment={n}"
    files = tuple(
        FileEntry(path=f"{folder}/{i}.parquet", size=n + i, rows=1, stats={}) for i in range(2)
    )
    return replace(fragment(n), files=files, attempt=attempt)


def entry(n: int, key: str | None = None) -> tree.Entry:
    return tree.Entry(key or f"{n:05}", made(n).id, made(n).content)


def fill(tx: Tx) -> None:
    """Two generations of a dataset, a half-built one, a listing, a target, work."""
    tx.traces.put([trace(n, n) for n in range(PARTITIONS)], [made(n) for n in range(PARTITIONS)])
    old = tree.build(tx.nodes, (entry(n) for n in range(PARTITIONS - 1)))
    new = tree.edit(
        tx.nodes, old, [("00007", None), (f"{PARTITIONS - 1:05}", entry(PARTITIONS - 1))]
    )
    parts = [source_partition(f"{n}.csv", n) for n in range(30)]
    listed = tree.build(
        tx.nodes, sorted(tree.Entry(p.key, p.source, Content(1, 5, 0)) for p in parts)
    )
    tx.listings.put_partitions(d(1), parts, [])
    tx.listings.put(listing(1, root=listed))
    inputs = {"objects": replace(state(1).inputs["raw"], root=listed)}
    for seq, root in enumerate((old, new), 1):
        totals = tree.totals(tx.nodes, root)
        made_of = replace(state(seq), root=root, inputs=inputs)
        tx.states.commit(
            replace(made_of, partitions=totals.partitions, rows=totals.content.rows), seq - 1
        )
        tx.traces.put_build(d(seq), root, SCHEMA)
    half = tree.build(tx.nodes, [entry(n) for n in range(3)])
    tx.states.put_building(PartialState("main", "flights.half", d(1), inputs, half, None, {}))
    written = tree.build(tx.nodes, [tree.Entry("x", bytes(32), Content(0, 0, 0))])
    tx.projections.put_target(Target("main", "flights.out", d(1), written, 1))
    tx.queue.put_job(d(5), stored_job(shared={"x": new.hex()}))


@dataclass(frozen=True)
class Place:
    """A database with everything in it, and a way to damage it."""

    store: Store
    lake: MemoryLake
    engine: Engine

    def change(self, statement: Callable[[], object]) -> None:
        with self.engine.begin() as connection:
            assert connection.execute(statement()).rowcount == 1  # type: ignore[call-overload]  # any statement

    def root(self, holder: str) -> bytes:
        with self.store.read() as tx:
            return [p.root for p in tx.upkeep.pointers() if p.holder == holder][-1]

    def some_node(self, holder: str, number: int) -> bytes:
        with self.store.read() as tx:
            return list(tree.reachable(tx.nodes, self.root(holder)))[number]

    def findings(self) -> list[tuple[str, str]]:
        found = fsck(self.store, "default", self.lake)
        assert all(f.fix == FIXES[f.code] and f.what for f in found)
        return [(f.code, f.where) for f in found]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "db"
    upgrade(f"sqlite:///{path}")
    store = open_store(f"sqlite:///{path}")
    with store.begin() as tx:
        fill(tx)
    store.close()
    return path


@pytest.fixture
def place(filled: Path, tmp_path: Path) -> Iterator[Place]:
    url = f"sqlite:///{shutil.copy(filled, tmp_path)}"
    store, lake, engine = open_store(url), MemoryLake(), create_engine(url)
    lake.objects.update(
        {file["path"]: b"x" * file["size"] for n in range(PARTITIONS) for file in made(n).files}
    )
    yield Place(store, lake, engine)
    store.close()
    engine.dispose()


def test_all_is_well(world: World) -> None:
    with world.begin() as tx:
        fill(tx)
    assert fsck(world.store, world.namespace) == ()
    check_everything(world)


def test_what_was_misread_is_told_where_it_is_asked_for(world: World) -> None:
    misread: Misread = {
        "file": "/in/1.parquet",
        "column": "c",
        "have": "DECIMAL(9,2)",
        "read": "INT",
    }
    looks = [task(n, kind="footers", partition=f"{n}.parquet") for n in (1, 2, 3)]
    with world.begin() as tx:
        tx.queue.put_job(d(0), stored_job())
        tx.queue.enqueue("main", "flights.daily", looks)
        tx.traces.put_memos(
            {d(1): {"misread": [misread]}, d(2): {"misread": []}, d(4): {"misread": [misread]}}
        )
    assert fsck(world.store, world.namespace) == ()
    [finding] = fsck(world.store, world.namespace, types=True)
    assert finding.where == "flights.daily, partition '1.parquet', /in/1.parquet"
    assert finding.what == "column c is DECIMAL(9,2) in the file, and was read as INT"


def test_all_is_well_in_the_lake(place: Place) -> None:
    assert place.findings() == []


@pytest.mark.parametrize(
    ("holder", "number", "where"),
    [
        ("state", 0, "state main/flights.daily 2"),
        ("state", -1, "state main/flights.daily 2"),
        ("state", 2, "state main/flights.daily 1"),  # a leaf that both generations have
        ("building", 0, "building main/flights.half"),
        ("listing", 0, f"listing {d(1).hex()}"),
        ("target", 0, "target main/flights.out"),
    ],
)
@pytest.mark.parametrize("damage", ["deleted", "changed", "cut short"])
def test_a_damaged_node(place: Place, holder: str, number: int, where: str, damage: str) -> None:
    digest = place.some_node(holder, number)
    with place.store.read() as tx:
        body = tx.nodes.get_nodes([digest])[digest]
    node = db.nodes.c.digest == digest
    body = body[:40] if damage == "cut short" else body[:50] + bytes([body[50] ^ 1]) + body[51:]
    place.change(lambda: delete(db.nodes).where(node))
    if damage != "deleted":
        row = {"namespace": "default", "digest": digest, "at": 0.0, "body": body}
        place.change(lambda: insert(db.nodes).values(row))
    assert place.findings() == [("corrupt-node", where)]


def test_a_damaged_node_is_named(place: Place) -> None:
    digest = place.some_node("state", -1)
    place.change(lambda: delete(db.nodes).where(db.nodes.c.digest == digest))
    (found,) = fsck(place.store, "default")
    assert found == Finding(
        "corrupt-node",
        "state main/flights.daily 2",
        f"tree node {digest.hex()}: it is missing",
        "restore the database from a backup; the files in the lake are untouched",
    )


def test_what_lies_beside_a_damaged_node_is_checked(place: Place) -> None:
    with place.store.read() as tx:
        leaf = list(tree.reachable(tx.nodes, place.root("state")))[1]
        last = list(tree.scan(tx.nodes, place.root("state")))[-1]
    place.change(lambda: delete(db.nodes).where(db.nodes.c.digest == leaf))
    place.change(
        lambda: (
            update(db.fragments).where(db.fragments.c.id == last.fragment).values(status="deleted")
        )
    )
    assert [code for code, _ in place.findings()] == ["corrupt-node", "fragment-not-stored"]


def test_fragments_that_are_not_what_entries_say(place: Place) -> None:
    at, row = f"partition '{7:05}'", db.fragments.c
    place.change(lambda: update(db.fragments).where(row.id == d(7)).values(sum2=1))
    assert place.findings() == [("content-differs", f"state main/flights.daily 1, {at}")]
    place.change(lambda: update(db.fragments).where(row.id == d(7)).values(status="condemned"))
    assert place.findings() == [("fragment-not-stored", f"state main/flights.daily 1, {at}")]
    place.change(lambda: delete(db.fragments).where(row.id == d(7)))
    trace_of = ("trace-without-fragment", f"trace {d(7).hex()}")
    assert place.findings() == [("fragment-missing", f"state main/flights.daily 1, {at}"), trace_of]


def test_a_trace_without_its_fragment(place: Place) -> None:
    with place.store.begin() as tx:
        tx.traces.put([trace(9_000, 9_001)], [])
    assert place.findings() == [("trace-without-fragment", f"trace {d(9_000).hex()}")]


@pytest.mark.parametrize("column", ["partitions", "rows"])
def test_a_state_that_counts_wrong(place: Place, column: str) -> None:
    newest = db.states.c.seq == 2
    place.change(lambda: update(db.states).where(newest).values({column: db.states.c[column] + 1}))
    assert place.findings() == [("totals-differ", "state main/flights.daily 2")]


def test_a_head_without_its_state(place: Place) -> None:
    place.change(lambda: update(db.heads).values(seq=3))
    assert place.findings() == [("head-without-state", "main/flights.daily")]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_listing_without_its_objects(place: Place, is_there: bool) -> None:
    with place.store.begin() as tx:
        changed = [SourcePartition("3.csv", d(1000), ())] if is_there else []
        tx.listings.put_partitions(d(1), changed, [] if is_there else ["3.csv"])
    assert place.findings() == [("source-missing", f"listing {d(1).hex()}, partition '3.csv'")]


def test_files_that_are_not_what_fragments_say(place: Place) -> None:
    gone, short = made(450).files[1]["path"], made(451).files[0]["path"]
    del place.lake.objects[gone]
    place.lake.objects[short] = b""
    assert sorted(place.findings()) == [
        ("file-gone", f"fragment {d(450).hex()}, {gone}"),
        ("file-size-differs", f"fragment {d(451).hex()}, {short}"),
    ]
    assert fsck(place.store, "default") == ()


def test_tables_of_branches_that_nobody_knows_of(place: Place) -> None:
    table = "default/flights/daily/_branches/{}"
    for name in ("dev", "try"):
        place.lake.objects[table.format(name) + "/_delta_log/0.json"] = b""
    place.lake.objects["default/flights/daily/_delta_log/0.json"] = b""
    with place.store.begin() as tx:
        # Somebody is to delete it, or to write it anew
        tx.projections.put_publication(unknown_table("dev", "flights.daily"))
    assert place.findings() == [("table-unknown", table.format("try"))]
    before = set(place.lake.objects)
    assert sweep(place.store, "default", place.lake) >= 1
    gone = {path for path in before - set(place.lake.objects) if "/_frags/" not in path}
    assert gone == {table.format("try") + "/_delta_log/0.json"}
    assert place.findings() == []


class CountingLake(MemoryLake):
    """Counts listings."""

    listings = 0

    def sizes(self, prefix: str) -> dict[str, int]:
        self.listings += 1
        return super().sizes(prefix)


def test_one_listing_for_each_folder_of_an_attempt(place: Place) -> None:
    lake = CountingLake()
    lake.objects = place.lake.objects
    assert fsck(place.store, "default", lake) == ()
    assert lake.listings == 2 * PARTITIONS // 100


def test_nodes_are_read_once(place: Place) -> None:
    """The second generation, its build traces and the work on it cost what differs."""
    with place.store.begin() as tx:
        for n in range(3, 40):
            tx.traces.put_build(d(n), place.root("state"), SCHEMA)
    before = place.store.statements
    assert fsck(place.store, "default") == ()
    assert place.store.statements - before < 60


def test_findings_are_limited(place: Place) -> None:
    place.lake.objects.clear()
    assert len(fsck(place.store, "default", place.lake)) == 1_000
    assert len(fsck(place.store, "default", place.lake, limit=7)) == 7


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    found = page.partition("`headgate fsck`")[2]
    assert [code for code in FIXES if f"| `{code}` |" not in found] == []

"""Taking in what a worker found: whole or not at all, at the cost of what changed."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core import tree
from controlplane.core.errors import Fenced
from controlplane.core.model.sources import Listing
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.upkeep.orphans import sweep
from controlplane.operations.work import listings, rescue
from controlplane.operations.work.listing_diff import Found, ListingDiff, Unchanged, compare, lost
from controlplane.operations.work.reports import Busy
from controlplane.store import open_store, upgrade
from dataplane.contract.encoding import digest
from dataplane.contract.identity import Content
from dataplane.contract.source_objects import (
    ListedPartition,
    ListingResult,
    SourceObject,
    listing_line,
)
from dataplane.listing.listed_partitions import listed
from tests.stores import new_store
from tests.trees import MemoryNodes
from tests.unit.listing.location import NEVER, Location, each, file, files, told

MANY, FEW = 20_000, 2000


@pytest.fixture
def location(tmp_path: Path) -> Location:
    return Location(new_store(), LocalObjects(tmp_path / "lake"))


@pytest.fixture
def in_sqlite(tmp_path: Path) -> Iterator[Location]:
    url = f"sqlite:///{tmp_path}/metadata.db"
    upgrade(url)
    store = open_store(url)
    yield Location(store, LocalObjects(tmp_path / "lake"))
    store.close()


def left_behind(location: Location) -> list[str]:
    return [str(p) for p in location.lake.root.rglob("*") if p.is_file()]


# --- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("inline", [True, False])
def test_a_first_listing(location: Location, inline: bool) -> None:
    found = [file("a.csv", "abc"), file("b.csv", "de", columns=None), file("c.csv", "abc")]
    listing = location.list(found, inline=inline)
    assert (listing.objects, listing.size_bytes, listing.served, listing.requested) == (3, 8, 1, 1)
    assert (listing.columns, listing.all_columns) == ((("a", "b"), None), True)
    entries = location.entries()
    assert {k: (e.content.rows, e.content.sum1) for k, e in entries.items()} == {
        "a.csv": (1, 3),
        "b.csv": (1, 2),
        "c.csv": (1, 3),
    }
    assert entries["a.csv"].fragment == entries["c.csv"].fragment != entries["b.csv"].fragment
    rows = location.rows(entries)
    assert {k: (r.source, r.objects) for k, r in rows.items()} == {
        f["name"]: (entries[f["name"]].fragment, (f,)) for f in found
    }
    assert (location.event().kind, location.event().n) == ("listing.done", 3)
    assert left_behind(location) == []


def test_inline_or_not_is_the_same_listing(location: Location) -> None:
    inline, told = location.list(files(30), inline=True), location.event()
    assert location.list(files(30)) == replace(
        inline, at=location.listing.at, served=2, requested=2
    )
    assert location.event() == told  # what is as it was is no event


def test_an_empty_listing_is_a_listing(location: Location) -> None:
    assert location.list([]).root == tree.EMPTY_ROOT
    assert location.list([], inline=True).served == 2


def test_what_comes_changes_and_goes(location: Location) -> None:
    location.list([file("a", "1"), file("b", "2"), file("c", "3")])
    listing = location.list([file("b", "two"), file("c", "3"), file("d", "4")])
    assert (listing.objects, listing.size_bytes) == (3, 5)
    assert {k: r.objects[0]["version"] for k, r in location.rows("abcd").items()} == {
        "b": "sha256:two",
        "c": "sha256:3",
        "d": "sha256:4",
    }
    assert set(location.entries()) == set("bcd")
    assert location.event().body["changed"] == 3


def test_a_touched_file_changes_nothing(location: Location) -> None:
    before = location.list([file("a"), file("b")])
    after = location.list([file("a"), file("b", modified_ms=2)])
    assert (after.root, location.event().body["changed"]) == (before.root, 0)


@pytest.mark.parametrize(
    "moved",
    [{"uri": "file:///elsewhere/b"}, {"size": 7}, {"name": "b2"}],
    ids=["uri", "size", "name"],
)
def test_an_object_that_moved_is_found_where_it_is(location: Location, moved: dict) -> None:
    before = file("b", "same")
    after: SourceObject = {**before, **moved}
    location.list([before], inline=True)
    root = location.listing.root
    claim = location.claim()
    (part,) = each([after])
    location.report(claim, location.found(claim, [{**part, "key": "b"}]))
    assert location.rows(["b"])["b"].objects == (after,)
    assert location.listing.root != root
    assert (
        location.rows(["b"])["b"].source
        == location.entries()["b"].fragment
        == bytes.fromhex(part["source"])
    )


def test_too_many_kinds_of_columns_are_told_in_part(location: Location) -> None:
    listing = location.list(file(f"{i:04d}", columns=[f"c{i}"]) for i in range(1200))
    assert listing.columns == tuple((f"c{i}",) for i in range(1000))
    assert not listing.all_columns


# --- losses ---------------------------------------------------------------------------------------


def test_a_loss_is_held_and_changes_nothing_until_it_is_accepted(location: Location) -> None:
    before = location.list(files(30))
    held = location.list(files(10))
    assert held.held == {"before": 30, "lost": 20}
    assert (held.root, held.digest, held.objects, len(location.rows(location.entries()))) == (
        before.root,
        before.digest,
        30,
        30,
    )
    assert location.list(files(10)).held == held.held
    location.accept_deletes()
    after = location.list(files(10))
    assert (after.held, after.objects, len(location.entries())) == (None, 10, 10)
    assert len(location.rows(f["name"] for f in files(30))) == 10


def test_what_comes_back_ends_the_hold(location: Location) -> None:
    before = location.list(files(30))
    location.list(files(10))
    assert location.list(files(30)) == replace(
        before, at=location.listing.at, served=3, requested=3
    )


def test_what_only_moved_is_not_lost(location: Location) -> None:
    location.list(file(f"old/{i}", str(i)) for i in range(100, 140))
    moved = location.list(file(f"new/{i}", str(i)) for i in range(100, 140))
    assert (moved.held, moved.objects) == (None, 40)
    some = location.list(file(f"again/{i}", str(i)) for i in range(100, 115))
    assert some.held == {"before": 40, "lost": 25}


@pytest.mark.parametrize("at_a_time", [1, 7, 1000])
def test_losses_are_counted_in_shares(at_a_time: int) -> None:
    def entry(key: str, source: int) -> tree.Entry:
        return tree.Entry(key, digest("source", number=source), Content(source, 0, 0))

    gone = [tree.EntryChange(f"gone {i}", entry(f"gone {i}", i), None) for i in range(50)]
    came = [tree.EntryChange(f"came {i}", None, entry(f"came {i}", i)) for i in range(20, 70)]
    assert lost(lambda: iter([*gone, *came]), 100, at_a_time) == sum(range(20))


def test_small_losses_are_taken_at_once(location: Location) -> None:
    location.list(files(30))
    assert location.list(files(15)).objects == 15


def dealt(location: Location, *groups: range) -> Listing:
    """A listing of files in groups, each named after its first."""
    found = [(f"{group[0]:03}", [file(f"{n:03}") for n in group]) for group in groups]
    claim = location.claim()
    location.report(
        claim, location.found(claim, [{**listed("", some, ()), "key": key} for key, some in found])
    )
    return location.listing


@pytest.mark.parametrize(
    ("groups", "gone"),
    [
        ([range(40), range(40, 100)], 0),
        ([range(99)], 0),
        ([range(10), range(10, 40), range(41, 100)], 0),
        ([range(40), range(40, 41)], 59),
        ([range(40, 41), range(41, 45)], 95),
        ([range(200, 210), range(210, 212)], 88),
    ],
    ids=["same", "joined", "split", "shrunk", "mostly gone", "fewer others"],
)
def test_losses_are_counted_in_files_however_they_are_dealt(
    location: Location, groups: list[range], gone: int
) -> None:
    dealt(location, range(40), range(40, 100))
    after = dealt(location, *groups)
    assert after.held == ({"before": 100, "lost": gone} if gone else None)


# --- faults ---------------------------------------------------------------------------------------


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def cut_between_lines(path: Path) -> None:
    path.write_bytes(
        gzip.compress(b"".join(gzip.decompress(path.read_bytes()).splitlines(keepends=True)[:-1]))
    )


def flip_a_byte(path: Path) -> None:
    body = path.read_bytes()
    path.write_bytes(body[:100] + bytes([body[100] ^ 0xFF]) + body[101:])


def another_text(path: Path) -> None:
    path.write_bytes(
        gzip.compress(gzip.decompress(path.read_bytes()).replace(b'"size":0', b'"size":1', 1))
    )


def no_text(path: Path) -> None:
    path.write_bytes(b"")


def other_order(path: Path) -> None:
    path.write_bytes(
        gzip.compress(
            b"".join(reversed(gzip.decompress(path.read_bytes()).splitlines(keepends=True)))
        )
    )


def no_lines(path: Path) -> None:
    path.write_bytes(gzip.compress(b'{"key":"a"}\n[]\n'))


@pytest.mark.parametrize(
    "damage",
    [
        cut_short,
        cut_between_lines,
        flip_a_byte,
        another_text,
        no_text,
        other_order,
        no_lines,
        Path.unlink,
    ],
)
def test_what_arrives_damaged_is_no_listing(
    location: Location, damage: Callable[[Path], None]
) -> None:
    before = location.list(files(40))
    claim = location.claim()
    result = location.found(claim, each(files(50)))
    damage(location.place(claim))
    location.report(claim, result)
    after = location.listing
    assert after.error is not None
    assert (after.error["condition"], after.error["kind"]) == ("listing-damaged", "infrastructure")
    assert after == replace(before, at=after.at, served=2, requested=2, error=after.error)
    assert len(location.rows(f["name"] for f in files(50))) == len(location.entries()) == 40
    assert left_behind(location) == []
    assert location.list(files(50)).objects == 50


def without_digest(result: ListingResult) -> ListingResult:
    return {"objects": 1}  # type: ignore[typeddict-item]  # as a worker of another make might report


def without_a_partition(result: ListingResult) -> ListingResult:
    return {**result, "partitions": result["partitions"][1:]}


def of_another_file(result: ListingResult) -> ListingResult:
    return {**{k: v for k, v in result.items() if k != "partitions"}, "file": "../../x"}  # type: ignore[typeddict-item]


@pytest.mark.parametrize("damage", [without_digest, without_a_partition, of_another_file])
def test_a_damaged_report_is_no_listing(
    location: Location, damage: Callable[[ListingResult], ListingResult]
) -> None:
    before = location.list(files(40))
    claim = location.claim()
    location.report(claim, damage(location.found(claim, each(files(39)), inline=True)))
    assert location.listing.error is not None
    assert (location.listing.root, location.listing.digest) == (before.root, before.digest)


def test_a_worker_that_dies_before_its_report_leaves_nothing(location: Location) -> None:
    before = location.list(files(40))
    claim = location.claim()
    location.found(claim, each(files(30)))
    assert left_behind(location) != []
    with location.store.read() as tx:
        attempt = tx.queue.attempts([claim["attempt"]])[claim["attempt"]]
    assert not rescue.adopt(location.ctx, attempt, location.lake, reason="it is gone")
    assert left_behind(location) == []
    assert location.listing == replace(before, requested=2)
    with pytest.raises(Fenced):
        location.report(claim, location.found(claim, each(files(30))))


def test_a_report_that_is_repeated_meanwhile_waits_for_the_first(location: Location) -> None:
    claim = location.claim()
    result = location.found(claim, each(files(40)))
    told: list[Busy] = []

    class Slow(LocalObjects):
        def stream(self, path: str) -> Iterator[bytes]:
            with pytest.raises(Busy) as caught:
                location.report(claim, result)
            told.append(caught.value)
            return super().stream(path)

    replace(location, lake=Slow(location.lake.root)).report(claim, result)
    assert [e.code for e in told] == ["unavailable", "unavailable"]  # the file is read twice
    assert location.listing.objects == 40
    with pytest.raises(Fenced):
        location.report(claim, result)


def test_a_file_that_outlived_its_attempt_is_swept(location: Location) -> None:
    claim = location.claim()
    result = location.found(claim, each(files(40)))
    body = location.place(claim).read_bytes()
    location.report(claim, result)
    # As if we had died before deleting it
    location.lake.put_if_absent(f"{claim['prefix']}/{result['file']}", body)
    assert sweep(location.store, location.namespace, location.lake) == 1
    assert left_behind(location) == []


def test_a_worker_that_fails_leaves_no_file(location: Location) -> None:
    claim = location.claim()

    def broken() -> Iterator[SourceObject]:
        yield from files(3)
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        location.found(claim, each(broken()))
    assert left_behind(location) == []


def test_a_listing_that_another_one_overtook_is_repeated(location: Location) -> None:
    location.list(files(3))
    claim = location.claim()
    result = location.found(claim, each(files(5)))
    with closing(location.read(claim, result)) as found:
        location.report(claim, result)
        with location.store.begin() as tx:
            event = listings.take_in(tx, claim["job"], 2, found).event
    assert event is not None
    assert event.kind == "listing.repeated"
    listing = location.listing
    assert (listing.objects, listing.requested > listing.served) == (5, True)


# --- cost -----------------------------------------------------------------------------------------


def compared(nodes: tree.NodeStore, listing: Listing, found: Iterable[ListedPartition]) -> Found:
    """What is found, inline, against a listing. To be closed."""
    result = told(found)
    return compare(nodes, listing, result, lambda: map(listing_line, result["partitions"]), 0.5)


def test_an_unchanged_listing_costs_one_comparison(in_sqlite: Location) -> None:
    in_sqlite.list(files(FEW))
    claim = in_sqlite.claim()
    result = in_sqlite.found(claim, each(files(FEW)))
    in_sqlite.place(claim).unlink()  # nobody reads it
    statements = in_sqlite.store.statements
    with closing(in_sqlite.read(claim, result)) as found, in_sqlite.store.begin() as tx:
        taken = listings.take_in(tx, claim["job"], 2, found)
    assert in_sqlite.store.statements - statements <= 4
    assert (in_sqlite.listing.served, taken.event) == (2, None)
    nodes = MemoryNodes()
    with closing(compared(nodes, in_sqlite.listing, each(files(FEW)))) as found:
        assert isinstance(found, Unchanged)
    assert nodes.calls == 0


@pytest.mark.slow
def test_one_change_of_many_costs_a_few_nodes_and_one_row() -> None:
    nodes, found = MemoryNodes(), list(each(files(MANY)))
    with closing(compared(nodes, NEVER, found)) as first:
        assert isinstance(first, ListingDiff)
        listing = replace(
            NEVER, root=tree.edit(nodes, first.base, first.edits()), digest=first.digest
        )
    [found[12_345]] = each([file(found[12_345]["key"], "other")])
    nodes.reset()
    with closing(compared(nodes, listing, found)) as second:
        assert isinstance(second, ListingDiff)
        assert [part.key for part in second.partitions()] == [found[12_345]["key"]]
        assert (nodes.reads, nodes.writes) == (3, 0)  # two levels, and the totals of the root
        nodes.reset()
        assert tree.edit(nodes, second.base, second.edits()) == second.root
    assert (nodes.reads, nodes.writes) == (2, 2)


@pytest.mark.slow
def test_statements_for_one_change_do_not_grow_with_the_location(in_sqlite: Location) -> None:
    costs = []
    for count in (FEW, 3 * FEW):
        in_sqlite.list(files(count))
        claim = in_sqlite.claim()
        result = in_sqlite.found(claim, each([*files(count - 1), file("changed")]))
        statements = in_sqlite.store.statements
        in_sqlite.report(claim, result)
        costs.append(in_sqlite.store.statements - statements)
    assert costs[0] == costs[1] <= 30  # most of them for the attempt and its task


def peak(location: Location, count: int) -> int:
    """Bytes of Python's memory at most while a first listing is taken in."""
    claim = location.claim()
    result = location.found(claim, each(files(count, width=10)))
    tracemalloc.start()
    location.report(claim, result)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert location.listing.objects == count
    return most


@pytest.mark.slow
def test_memory_does_not_grow_with_the_location(in_sqlite: Location) -> None:
    few = peak(replace(in_sqlite, namespace="few"), FEW)
    many = peak(replace(in_sqlite, namespace="many"), MANY)
    assert many < 2 * few

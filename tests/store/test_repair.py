"""Giving up fragments whose files are gone: what is planned anew because of them, and what stays as
it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from controlplane.core import tree
from controlplane.core.model.states import LOST, Consumed, PartialState, State
from controlplane.core.model.tasks import Fragment
from controlplane.operations.upkeep import repair as repairing
from controlplane.operations.upkeep.fsck import RowCheck
from controlplane.operations.upkeep.repair import Repaired, repair
from controlplane.ports.store import Tx
from dataplane.contract.results import FileEntry
from tests.property.engine import MemoryLake
from tests.store.conftest import World
from tests.store.examples import SCHEMA, branch, d, fragment, state, trace

PARTITIONS = 700  # of several leaves


def made(n: int) -> Fragment:
    attempt = f"aa{n % 3:030}"
    folder = f"default/flights/daily/_frags/aa/{attempt}/_fragment={n}"
    return replace(
        fragment(n),
        files=(FileEntry(path=f"{folder}/0.parquet", size=5, rows=1, stats={}),),
        attempt=attempt,
    )


def entries(numbers: Iterable[int]) -> list[tree.Entry]:
    return [tree.Entry(f"{n:05}", made(n).id, made(n).content) for n in sorted(numbers)]


def commit(tx: Tx, dataset: str, numbers: Iterable[int], **other: object) -> bytes:
    root = tree.build(tx.nodes, entries(numbers))
    tx.states.commit(replace(state(1, dataset), root=root, **other), 0)  # type: ignore[arg-type]
    return root


@pytest.fixture
def lake(world: World) -> MemoryLake:
    """Two datasets with fragments in common, one with partial results, one that is half built, and
    a branch."""
    found = MemoryLake()
    with world.begin() as tx:
        tx.traces.put(
            [trace(n, n) for n in range(PARTITIONS)], [made(n) for n in range(PARTITIONS)]
        )
        commit(tx, "flights.daily", range(PARTITIONS - 100))
        commit(tx, "flights.other", range(PARTITIONS - 50, PARTITIONS))
        parts = tree.build(tx.nodes, entries(range(600, 650)))
        used = {
            name: Consumed("flights.daily", root, d(1))
            for name, root in (("in", d(9)), ("in/parts", parts), ("in/parted", d(9)))
        }
        commit(tx, "flights.sums", [690], inputs=used)
        tx.states.put_building(
            PartialState(
                "main", "flights.half", d(1), {}, tree.build(tx.nodes, entries([1, 2])), None, {}
            )
        )
        tx.traces.put_build(d(1), tree.build(tx.nodes, entries(range(PARTITIONS - 100))), SCHEMA)
        tx.traces.put_build(
            d(2), tree.build(tx.nodes, entries(range(PARTITIONS - 50, PARTITIONS))), SCHEMA
        )
        tx.branches.create(branch())
        for state in tx.states.newest("main").values():
            tx.states.commit(replace(state, branch="dev", seq=state.seq + 1), state.seq)
    found.objects.update(
        {file["path"]: b"12345" for n in range(PARTITIONS) for file in made(n).files}
    )
    return found


def lose(lake: MemoryLake, *numbers: int) -> None:
    for n in numbers:
        del lake.objects[made(n).files[0]["path"]]


def heads(world: World, branch: str = "main") -> dict[str, State]:
    with world.read() as tx:
        return tx.states.newest(branch)


def test_nothing_is_lost(world: World, lake: MemoryLake) -> None:
    before = heads(world)
    assert repair(world.store, world.namespace, lake) == Repaired(0, (), complete=True)
    assert heads(world) == before


def test_who_has_a_lost_fragment_looks_at_all_again_in_every_branch(
    world: World, lake: MemoryLake
) -> None:
    before = {name: heads(world, name) for name in ("main", "dev")}
    lose(lake, 1, 300)
    found = repair(world.store, world.namespace, lake)
    assert found == Repaired(2, ("dev/flights.daily", "main/flights.daily"), complete=True)
    for name, was in before.items():
        after, daily = heads(world, name), was.pop("flights.daily")
        at = after["flights.daily"].at
        assert after.pop("flights.daily") == replace(
            daily, seq=daily.seq + 1, logic=LOST, lineage=LOST, cause="lost", at=at
        )
        assert after == was
    with world.read() as tx:
        # The others are computed again
        assert tx.traces.hits([d(1), d(2), d(300)]).keys() == {d(2)}
        assert tx.traces.remembered([d(1), d(2)], [])[0].keys() == {d(2)}
        assert tx.states.unfinished("main")[0] == {}
        assert tx.states.unfinished("dev")[0] == {}


def test_repeating_it_changes_nothing(world: World, lake: MemoryLake) -> None:
    lose(lake, 300)
    repair(world.store, world.namespace, lake)
    before = heads(world)
    assert repair(world.store, world.namespace, lake) == Repaired(0, (), complete=True)
    assert heads(world) == before


def test_one_that_was_stopped_is_finished_by_the_next(world: World, lake: MemoryLake) -> None:
    with world.begin() as tx:
        tx.traces.condemn([d(300)])
    found = repair(world.store, world.namespace, lake)
    assert found == Repaired(0, ("dev/flights.daily", "main/flights.daily"), complete=True)


def test_a_file_that_was_cut_short_is_lost(world: World, lake: MemoryLake) -> None:
    lake.objects[made(660).files[0]["path"]] = b"123"
    assert repair(world.store, world.namespace, lake).datasets == (
        "dev/flights.other",
        "main/flights.other",
    )


def test_partial_results_are_not_used_any_more(world: World, lake: MemoryLake) -> None:
    lose(lake, 620)
    assert repair(world.store, world.namespace, lake).datasets == (
        "dev/flights.sums",
        "main/flights.sums",
    )
    assert heads(world)["flights.sums"].inputs.keys() == {"in"}


def test_what_comes_again_is_stored_under_its_new_files(world: World, lake: MemoryLake) -> None:
    lose(lake, 300)
    repair(world.store, world.namespace, lake)
    again = replace(
        made(300), files=(FileEntry(path="elsewhere.parquet", size=7, rows=1, stats={}),)
    )
    with world.begin() as tx:
        tx.traces.put([trace(300, 300)], [again])
    with world.read() as tx:
        assert tx.traces.fragments([d(300)])[d(300)].files == again.files
        assert tx.traces.hits([d(300)]).keys() == {d(300)}


def test_a_dataset_that_moves_on_meanwhile_is_looked_at_again(
    world: World, lake: MemoryLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose(lake, 300)
    commit_lost = repairing._commit_lost

    def overtaken(tx: Tx, seen: State) -> bool:
        """Somebody commits just before the first mark is written."""
        monkeypatch.setattr(repairing, "_commit_lost", commit_lost)
        tx.states.commit(replace(seen, seq=seen.seq + 1), seen.seq)
        return commit_lost(tx, seen)

    monkeypatch.setattr(repairing, "_commit_lost", overtaken)
    assert repair(world.store, world.namespace, lake).datasets == (
        "dev/flights.daily",
        "main/flights.daily",
    )
    assert sorted(heads(world, branch)["flights.daily"].seq for branch in ("main", "dev")) == [2, 4]


def test_so_many_at_a_time(world: World, lake: MemoryLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repairing, "FRAGMENTS", 30)
    monkeypatch.setattr(repairing, "A_TIME", 7)
    lose(lake, *range(40))
    assert repair(world.store, world.namespace, lake).complete is False
    assert repair(world.store, world.namespace, lake).fragments == 10
    with world.read() as tx:
        assert tx.traces.hits([d(n) for n in range(41)]).keys() == {d(40)}


def test_a_damaged_file_is_given_up_in_all_fragments_that_have_it(world: World) -> None:
    """A span has the files of its slices, and the home of the last one alone."""
    slices = [made(1), replace(made(2), home="flights.other")]
    files = tuple(file for part in slices for file in part.files)
    span = replace(made(3), files=files, home="flights.other")
    lake = MemoryLake()
    lake.objects.update({file["path"]: b"12345" for file in files})
    with world.begin() as tx:
        tx.traces.put([], [*slices, span])

    def damages(fragments: Iterable[Fragment]) -> Iterator[tuple[Fragment, str, str]]:
        damaged_path = files[0]["path"]
        for of in fragments:
            if any(file["path"] == damaged_path for file in of.files):
                yield of, damaged_path, "it has other rows"

    for home in ("flights.other", "flights.daily"):
        with world.begin() as tx:
            tx.traces.put([], [*slices, span])
        repair(world.store, world.namespace, lake, RowCheck(damages, home))
        with world.read() as tx:
            stored = tx.traces.stored([part.id for part in (*slices, span)])
        statuses = [stored[part.id].status == "stored" for part in (*slices, span)]
        assert statuses == [False, True, False], home

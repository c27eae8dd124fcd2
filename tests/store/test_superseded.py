"""Packs that no kept generation is read by go with their files; whoever may still read one finds
it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core.model.pack_origins import Origin, PendingDeletion
from controlplane.core.model.states import State
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.upkeep.collect import Collected, collect
from controlplane.operations.upkeep.orphans import sweep
from controlplane.ports.store import Store
from controlplane.store import open_store, upgrade
from tests.store.conftest import World
from tests.store.examples import d, publication, stored_job, task
from tests.store.test_collect import Watched
from tests.store.test_packs import DATASET, FEW, Place, filled
from tests.stores import new_store

HOUR, DAY = 3600.0, 86400.0


@pytest.fixture
def place(world: World, tmp_path: Path) -> Place:
    return Place(world.store, world.namespace, tmp_path)


def packed(place: Place) -> State:
    """A dataset whose leaves are packed but for the last one."""
    _, new = filled(place, FEW)
    place.ask(new)
    assert place.pack() > 0
    return new


def broken_up(place: Place) -> State:
    """Its packs are of no kept generation: a member of each leaf is another one, and eight states
    are newer."""
    place.commit([(f"f{100 + n}", place.fragment(n, again=3)) for n in range(FEW)])
    for _ in range(8):
        newest = place.commit([])
    return newest


def gc(place: Place, after_s: float = 2 * HOUR, store: Store | None = None) -> Collected:
    with place.store.read(place.namespace) as tx:
        now = tx.now() + after_s
    lake = LocalObjects(place.root)
    return collect(store or place.store, place.namespace, lake=lake, now=now, generations=1, days=0)


def files(place: Place) -> set[str]:
    return {str(p.relative_to(place.root)) for p in place.root.rglob("*.parquet")}


def pack_files(place: Place, state: State) -> set[str]:
    """Each pack has four."""
    attempts = {path.split("/")[-3] for path in place.files(state) if "part-3" in path}
    return {path for path in place.files(state) if path.split("/")[-3] in attempts}


def test_superseded_packs_go_with_their_files(place: Place) -> None:
    made = pack_files(place, packed(place))
    newest = broken_up(place)
    rows = place.rows(newest)
    first = gc(place)
    assert (first.superseded, first.folders) == (len(made) / 4, 0)
    assert made <= files(place)  # somebody may be reading
    again = gc(place, 4 * HOUR)
    assert (again.superseded, again.folders) == (0, len(made) / 4)
    assert files(place).isdisjoint(made)
    # Nor their attempts
    assert not any((place.root / path).parent.parent.exists() for path in made)
    assert place.rows(newest) == rows
    assert gc(place, 6 * HOUR).folders == 0
    assert place.fsck() == set()


def test_packs_of_kept_generations_stay(place: Place) -> None:
    new = packed(place)
    place.commit([(f"f{100 + n}", place.fragment(n, again=3)) for n in range(FEW)])
    assert gc(place, 40 * DAY).superseded == 0
    assert pack_files(place, new) <= files(place)


def test_a_table_that_is_behind_keeps_its_packs(place: Place) -> None:
    new = packed(place)
    broken_up(place)
    with place.store.begin(place.namespace) as tx:
        tx.projections.put_publication(replace(publication(1), dataset=DATASET, root=new.root))
    assert gc(place).superseded == 0


def test_what_a_table_shows_may_not_be_known(place: Place) -> None:
    """Its tree is gone, and so is what tells its packs."""
    packed(place)
    broken_up(place)
    with place.store.begin(place.namespace) as tx:
        tx.projections.put_publication(replace(publication(1), dataset=DATASET, root=d(77)))
    assert gc(place).superseded == 0


def test_queued_work_keeps_its_packs(place: Place) -> None:
    new = packed(place)
    broken_up(place)
    with place.store.begin(place.namespace) as tx:
        tx.queue.put_job(d(5), stored_job(shared={"x": new.root.hex()}))
        tx.queue.enqueue("main", "shop.total", [task(1, job=d(5))])
    assert gc(place).superseded == 0
    assert pack_files(place, new) <= files(place)


def test_another_leaf_of_the_same_rows_keeps_a_pack(place: Place) -> None:
    """Files were renamed: other keys, another leaf, the same fragments. Nobody asked for a pack of
    it."""
    fragments = [place.fragment(n) for n in range(20)]
    place.commit([(f"f{100 + n}", one) for n, one in enumerate(fragments)])
    new = place.commit([])
    place.ask(new)
    assert place.pack() == 1
    moved = [
        (f"{name}{100 + n}", one if name == "g" else None)
        for name in "fg"
        for n, one in enumerate(fragments)
    ]
    place.commit(moved)
    for _ in range(8):
        newest = place.commit([])
    assert len(place.files(newest)) == 4
    found = gc(place)
    assert (found.superseded, found.states) == (0, 3)
    assert len(place.files(newest)) == 4


def test_packs_that_were_given_up_go_as_well(place: Place) -> None:
    made = pack_files(place, packed(place))
    assert place.give_up() == len(made) / 4
    broken_up(place)
    assert gc(place).superseded == len(made) / 4
    assert gc(place, 4 * HOUR).folders == len(made) / 4


def test_what_was_asked_for_and_never_made_is_forgotten(place: Place) -> None:
    _, new = filled(place, FEW)
    place.ask(new)
    newest = broken_up(place)
    assert gc(place).superseded == 0  # it is still asked for
    place.ask(newest)
    place.pack()
    assert gc(place).superseded > 0
    assert pack_files(place, newest)
    assert gc(place, 4 * HOUR).folders == 0


def test_old_files_of_a_pack_that_is_made_again_are_kept_for_long(place: Place) -> None:
    """Older versions of a table name them."""
    new = packed(place)
    before = pack_files(place, new)
    place.give_up()
    place.ask(new)
    place.pack()
    assert pack_files(place, new).isdisjoint(before)
    assert gc(place, DAY).folders == 0
    assert gc(place, 31 * DAY).folders == len(before) / 4
    assert files(place).isdisjoint(before)
    assert pack_files(place, new) <= files(place)
    assert place.fsck() == set()


def test_a_sweep_leaves_what_is_in_its_grace(place: Place) -> None:
    made = pack_files(place, packed(place))
    broken_up(place)
    gc(place)
    assert sweep(place.store, place.namespace, LocalObjects(place.root)) == 0
    assert made <= files(place)


# --- while others write, and killed ---------------------------------------------------------------


class Returning:
    """Somebody who commits the packed rows once more before some transaction of a collection, and
    what he then read."""

    def __init__(self, place: Place, moment: int) -> None:
        self.place, self._moment = place, moment
        self.state: State | None = None
        self.read: set[str] = set()

    def __call__(self, moment: int, may_write: bool) -> None:
        if moment >= self._moment and may_write and self.state is None:
            keys = [(f"f{100 + n}", self.place.fragment(n)) for n in range(FEW)]
            self.state = self.place.commit(keys)
            self.read = set(self.place.files(self.state))


@pytest.mark.parametrize("moment", range(1, 16, 2))
def test_at_every_moment_of_a_collection(tmp_path: Path, moment: int) -> None:
    """A table that shows a kept generation, as it was published at any moment, never loses a
    file."""
    clock = [1_000_000.0]
    place = Place(new_store(lambda: clock[0]), "default", tmp_path / "lake")
    made = pack_files(place, packed(place))
    broken_up(place)
    returning = Returning(place, moment)
    clock[0] += 2 * HOUR  # nodes that are put from here on are new
    first = gc(place, 0, Watched(place.store, returning))
    returning(100, True)
    assert returning.state
    assert first.superseded == (0 if returning.read & made else len(made) / 4)
    for hours in (4, 6):
        gc(place, hours * HOUR)
    assert returning.read <= files(place)
    assert set(place.files(returning.state)) <= files(place)


COLLECT = """
import sys
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.upkeep.collect import collect
from controlplane.store import open_store
from tests.stores import new_store
from pathlib import Path
lake = LocalObjects(Path(sys.argv[2]))
collect(open_store(sys.argv[1]), "default", lake=lake, now=float(sys.argv[3]), generations=1, days=0)
"""


def test_killed_in_the_middle_and_done_by_the_next_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/db"
    upgrade(url)
    place = Place(open_store(url), "default", tmp_path / "lake")
    made = pack_files(place, packed(place))
    rows = place.rows(broken_up(place))
    with place.store.read() as tx:
        now = tx.now()
    for failpoint, after in (("packs-dropped", 2 * HOUR), ("leftovers-deleted", 4 * HOUR)):
        command = [sys.executable, "-c", COLLECT, url, str(place.root), str(now + after)]
        killed = subprocess.run(
            command, env={**os.environ, "HEADGATE_FAILPOINTS": failpoint}, check=False
        )
        assert killed.returncode == -signal.SIGKILL
    assert files(place).isdisjoint(made)
    with place.store.read() as tx:
        assert len(tx.upkeep.leftovers(now + DAY, 99)) == len(made) / 4  # nobody has noted it yet
    assert gc(place, 5 * HOUR).folders == len(made) / 4
    with place.store.read() as tx:
        assert (
            place.rows(tx.states.newest("main")[DATASET]),
            tx.upkeep.leftovers(now + DAY, 99),
        ) == (rows, ())
    assert place.fsck() == set()
    place.store.close()


# --- the store ------------------------------------------------------------------------------------


def test_origins_and_leftovers(world: World) -> None:
    with world.begin() as tx:
        tx.upkeep.put_origins([Origin(d(n), d(10), d(20), 1.5) for n in range(3)])
        tx.upkeep.put_origins([Origin(d(1), d(11), d(21), 2.5)])
        tx.upkeep.put_leftovers([PendingDeletion(f"a/b{n}/é", f"t{n}", 10.0 - n) for n in range(3)])
        tx.upkeep.put_leftovers([PendingDeletion("a/b0/é", "t9", 11.0)])
    with world.begin() as tx:
        assert {o.pack: o.leaf for o in tx.upkeep.origins()} == {
            d(0): d(10),
            d(1): d(11),
            d(2): d(10),
        }
        assert tx.upkeep.leftovers(9.0, 9) == (
            PendingDeletion("a/b2/é", "t2", 8.0),
            PendingDeletion("a/b1/é", "t1", 9.0),
        )
        assert [one.attempt for one in tx.upkeep.leftovers(99.0, 2)] == ["t2", "t1"]
        assert tx.traces.referenced_attempts(["t0", "t1", "t9"]) == {"t1", "t9"}
        tx.upkeep.drop_packs([d(0), d(7)])
        tx.upkeep.drop_leftovers(["a/b1/é", "nothing"])
    with world.read() as tx:
        assert {o.pack for o in tx.upkeep.origins()} == {d(1), d(2)}
        assert [one.attempt for one in tx.upkeep.leftovers(99.0, 9)] == ["t2", "t9"]

"""Many parts of an aggregate: merged leaf by leaf of their tree, so that one that changed redoes
one merge a level."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from controlplane.core import tree
from controlplane.core.model.jobs import StoredSqlJob
from controlplane.core.plan import FEWEST
from controlplane.core.plan.transform import keyed_parts
from controlplane.core.sql import PARTS
from controlplane.core.tree.shape import boundaries
from controlplane.operations.desired import controls
from controlplane.operations.upkeep.collect import GRACE_S, collect
from controlplane.operations.upkeep.fsck import fsck
from controlplane.operations.upkeep.repair import repair
from dataplane.contract.results import TaskError
from tests.property.model import File, Grouped, Meeting, Read, Row, Total
from tests.property.world import BRANCH, World
from tests.slices import sliced
from tests.unit.branches.world import BranchWorld

NAMES = [f"f{100 + n}.csv" for n in range(900)]
LEAVES = 3


def few() -> list[str]:
    """Names of files of as many leaves."""
    ends = boundaries(NAMES)
    return [NAMES[end - i] for end in ends[: LEAVES - 1] for i in range(4)] + NAMES[
        ends[LEAVES - 2] + 1 :
    ][:4]


class Counting(World):
    """Tells how many tasks gave partitions, of each time that everything was settled."""

    last = 0

    def executed(self) -> int:
        self.settle()
        with self.store.read() as tx:
            count, self.last = tx.events.count("main", self.last), tx.events.last()
        return count.get("task.executed", 0)


@pytest.fixture(params=[1, 1_000], ids=["in windows", "at once"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Counting]:
    made = Counting(tmp_path, exact=request.param, fewest=2, widest=2)
    yield made
    made.close()


def rows(v: int) -> File:
    return File(("k", "v"), tuple[Row, ...]((k, v) for k in (1, 2, 3)))


def test_one_part_redoes_one_merge_of_each_level(world: Counting) -> None:
    names = few()
    for number, name in enumerate(names):
        world.put("one", name, rows(number * number))
    world.apply({"a": {"x": Read("one", declared=("k", "v")), "total": Total("x")}}, {})
    # parsed, parts, two levels of merges, the whole
    assert world.executed() == 2 * len(names) + LEAVES + 1 + 1
    world.put("one", names[5], rows(7))
    assert world.executed() == 1 + 1 + 1 + 1 + 1
    world.put("one", NAMES[-1], rows(8))
    world.remove("one", names[1])
    assert world.executed() == 1 + 1 + 2 + 1 + 1  # of a withdrawn file only merges
    world.remove("one", names[0])  # at which a leaf ends: then there are two, and no second level
    assert world.executed() == 1 + 1


def test_what_was_merged_is_known_when_it_comes_back(world: Counting) -> None:
    names = few()
    for number, name in enumerate(names):
        world.put("one", name, rows(number))
    world.apply({"a": {"x": Read("one", declared=("k", "v")), "total": Total("x")}}, {})
    world.settle()
    world.put("one", names[5], rows(70))
    world.executed()
    world.put("one", names[5], rows(5))
    assert world.executed() == 0


def by_minute(number: int, keys: range, times: int = 3) -> File:
    """A file with several rows of each key, so that a part has fewer."""
    return File(("k", "v"), tuple((k, number + v) for k in keys for v in range(times)))


@pytest.fixture(params=[1, 1_000], ids=["in windows", "at once"])
def keyed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Counting]:
    made = Counting(tmp_path, exact=request.param, fewest=2)
    for number in range(6):
        made.put("one", f"{number}.csv", by_minute(number, range(8)))
    made.apply({"a": {"x": Read("one", declared=("k", "v")), "sums": Grouped("x")}}, {})
    yield made
    made.close()


def test_a_partition_with_few_keys_costs_one_part_and_a_merge_of_each(keyed: Counting) -> None:
    read = 1 + 1  # parsed, and its keys listed
    assert keyed.executed() == 6 * read + 8  # each key by the plain query
    keyed.put("one", "6.csv", by_minute(6, range(2)))
    assert keyed.executed() == read + 7 + 2  # the first parts, and merged keys
    keyed.put("one", "7.csv", by_minute(7, range(3)))
    assert keyed.executed() == read + 1 + 3
    keyed.put("one", "3.csv", by_minute(9, range(1)))
    assert keyed.executed() == read + 1 + 8  # a correction: all keys that the file held
    keyed.remove("one", "7.csv")
    assert keyed.executed() == 3
    with keyed.store.read() as tx:
        later = tx.now() + 2 * GRACE_S
    assert collect(keyed.store, keyed.ctx.namespace, now=later).nodes
    assert fsck(keyed.store, keyed.ctx.namespace) == ()
    keyed.put("one", "8.csv", by_minute(8, range(4, 8)))
    assert keyed.executed() == read + 1 + 4  # parts outlive a collection


def test_changes_of_other_keys_share_merges_in_between(tmp_path: Path) -> None:
    with closing(Counting(tmp_path, fewest=2, widest=3)) as world:
        pairs = [range(2), range(1, 3), range(2, 4), range(3, -1, -3)]  # the last: 3 and 0
        for number, name in enumerate(few()):
            world.put("one", name, by_minute(number, pairs[number % 4]))
        world.put("one", NAMES[-1], by_minute(1, range(9, 10)))
        for name in few()[:3]:
            world.put("one", name, by_minute(1, range(8)))
        world.apply({"a": {"x": Read("one", declared=("k", "v")), "sums": Grouped("x")}}, {})
        world.settle()
        for name, keys in zip(NAMES[-2:-4:-1], (pairs[0], pairs[2]), strict=True):
            world.put("one", name, by_minute(2, keys))
            world.settle()
        read, part = 2, 1
        world.executed()
        world.put("one", NAMES[-4], by_minute(3, range(1, 3)))
        assert world.executed() == read + part + 1 + 2, "one merge for both keys, of one leaf"
        world.put("one", NAMES[-5], by_minute(3, range(4, 5)))
        assert world.executed() == read + part + 1, "few parts of its leaves: merged at once"


def planned(world: World) -> set[tuple[str, int]]:
    plan = world.once().plan
    return {(item.reason, item.tasks) for item in plan.items if item.dataset == "a.sums"}


def until_merges(world: World) -> None:
    """Until merges are queued, of which none has begun."""
    controls.refresh(world.ctx, BRANCH, None)
    for _ in range(8):
        world.once()
        with world.store.read() as tx:
            queued = tx.queue.demands(BRANCH, "a.sums").values()
        if queued and all(task.partition.startswith("k=") for task in queued):
            return
        while world.engine.step():
            """All that there is to do."""
    pytest.fail("no merges")


@pytest.mark.parametrize("changes", [1, 2], ids=["first parts", "parts of a state"])
def test_a_failed_merge_of_parts_that_are_lost_is_done_anew(tmp_path: Path, changes: int) -> None:
    with closing(World(tmp_path, fewest=2)) as world:
        for number in range(6):
            world.put("one", f"{number}.csv", by_minute(number, range(8)))
        world.apply({"a": {"x": Read("one", declared=("k", "v")), "sums": Grouped("x")}}, {})
        world.settle()
        for number in range(6, 5 + changes):
            world.put("one", f"{number}.csv", by_minute(number, range(2)))
            world.settle()
        world.put("one", "9.csv", by_minute(9, range(2)))
        until_merges(world)
        assert planned(world) == {("input, merged by key from parts", 2)}
        with world.store.begin() as tx:
            [attempt] = [tx.queue.claim("one", "d", ["transform"], max_tasks=2, lease_s=9)]
            assert attempt is not None
            for key in attempt.tasks:
                error = {"kind": "user", "condition": "X", "message": "boom", "detail": ""}
                tx.queue.fail(attempt.id, key, cast("TaskError", error))
            tx.queue.end_attempt(attempt.id)
            job = cast("StoredSqlJob", tx.queue.jobs([attempt.job])[attempt.job])
            assert job["shared"] == {"x": tree.EMPTY_ROOT.hex()}
            pairs = tree.scan(tx.nodes, bytes.fromhex(job["pairs"][PARTS]))
            lost = tx.traces.fragments([next(iter(pairs)).fragment])
        for fragment in lost.values():
            world.lake.delete_prefix(fragment.files[0]["path"].rpartition("/")[0])
        # What is lost may be computed again
        world.engine.done[:] = [work for work in world.engine.done if work.partition != "0.csv"]
        assert repair(world.store, world.ctx.namespace, world.lake).fragments == 1
        world.once()
        controls.retry(world.ctx, BRANCH, None)
        world.settle()


def reasons(world: World) -> set[str]:
    """What plans say about keys to compute, on the way from a change to rest."""
    controls.refresh(world.ctx, BRANCH, None)
    said: set[str] = set()
    for _ in range(8):
        plan = world.once().plan
        said |= {item.reason for item in plan.items if item.dataset == "a.sums" and item.certain}
        while world.engine.step():
            """All that there is to do."""
    return said - {""}


def test_the_plan_says_how_keys_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keyed_parts.MOST_PAIRS >= 64 * 4_000, "`bucket 64` of some thousands of partitions"
    with closing(World(tmp_path, fewest=3)) as world:
        reads = {"x": Read("one", declared=("k", "v"))}
        for number in range(4):
            world.put("one", f"{number}.csv", by_minute(number, range(2)))
        world.apply({"a": {**reads, "sums": Grouped("x")}}, {})
        assert reasons(world) == set()
        world.put("one", "4.csv", by_minute(4, range(1)))
        assert reasons(world) == {"input, merged by key from parts"}
        world.put("one", "5.csv", by_minute(5, range(7, 8)))
        assert reasons(world) == {"input, plain query: fewer than 3 partitions hold a key"}
        for number in range(6, 10):
            world.put("one", f"{number}.csv", by_minute(number, range(9, 11), times=1))
            last = reasons(world)
        assert "input, plain query: its parts have over half of the rows" in last
        monkeypatch.setattr(keyed_parts, "MOST_PAIRS", 4)
        world.put("one", "9.csv", by_minute(9, range(1)))
        too_many = "input, plain query: too many partitions hold the changed keys"
        assert too_many in reasons(world)


@pytest.mark.parametrize(
    ("min_rows", "widest", "way"),
    [
        (40, 7, "plain query: fewer than 40 rows to read"),
        (39, 7, "merged by key from parts"),
        (40, 6, "merged by key from parts"),
    ],
    ids=["few rows", "enough rows", "merged by steps"],
)
def test_small_partitions_are_read_unless_a_key_is_in_very_many(
    tmp_path: Path, min_rows: int, widest: int, way: str
) -> None:
    with closing(World(tmp_path, fewest=2, widest=widest, min_rows=min_rows)) as world:
        reads = {"x": Read("one", declared=("k", "v"))}
        for number in range(6):
            world.put("one", f"{number}.csv", by_minute(number, range(2)))
        world.put("one", "8.csv", by_minute(8, range(7, 9)))  # holds no key that changes
        world.apply({"a": {**reads, "sums": Grouped("x")}}, {})
        reasons(world)
        world.put("one", "6.csv", by_minute(6, range(1)))
        assert f"input, {way}" in reasons(world)


def test_a_key_has_one_task_above_and_below_the_floor_of_rows(tmp_path: Path) -> None:
    with closing(Counting(tmp_path, fewest=2, min_rows=43)) as world:
        reads = {"x": Read("one", declared=("k", "v"))}
        for number in range(7):
            world.put("one", f"{number}.csv", by_minute(number, range(2)))
        world.apply({"a": {**reads, "sums": Grouped("x")}}, {})
        world.settle()
        world.put("one", "7.csv", by_minute(7, range(1)))  # 45 rows: 8 parts, one merge
        world.executed()
        world.remove("one", "7.csv")
        world.executed()
        world.remove("one", "6.csv")  # 36 rows
        assert world.executed() == 2
        world.put("one", "6.csv", by_minute(6, range(2)))
        world.put("one", "7.csv", by_minute(7, range(1)))
        assert world.executed() == 0, "what parts gave is what the plain query gives"


class History:
    """Random changes of the files, and of the code, of aggregates by key."""

    def __init__(self, seed: int, world: World) -> None:
        self.chance, self.world = random.Random(seed), world
        self.names: list[str] = []
        self.codes = [Grouped("x"), Grouped("x", above=4)]

    def go(self, steps: int) -> None:
        for _ in range(8):
            self.arrive()
        self.edit()
        changes = [self.arrive, self.arrive, self.correct, self.withdraw, self.edit, self.dimension]
        for _ in range(steps):
            self.world.settle()
            for _ in range(self.chance.choice([1, 1, 2])):
                self.chance.choice(changes)()
        self.world.settle()

    def file(self) -> File:
        """With a few keys, neighbours of each other, and several rows of each."""
        first, many = self.chance.randrange(6), self.chance.randrange(1, 4)
        return by_minute(self.chance.randrange(6), range(first, first + many), times=3)

    def arrive(self) -> None:
        self.names.append(self.chance.choice(NAMES))
        self.world.put("one", self.names[-1], self.file())

    def correct(self) -> None:
        self.world.put("one", self.chance.choice(self.names), self.file())

    def withdraw(self) -> None:
        name = self.chance.choice(self.names)
        self.names = [other for other in self.names if other != name] or [name]
        if name not in self.names:
            self.world.remove("one", name)

    def dimension(self) -> None:
        """What the parts of `met` read beside the partition."""
        self.world.put("two", "a.csv", self.file())

    def edit(self) -> None:
        """Also back to what was before."""
        reads = {name: Read(name, declared=("k", "v")) for name in ("one", "two")}
        sums = self.chance.choice(self.codes)
        if not self.world.folders.get("two"):
            self.dimension()
        self.world.apply(
            {
                "a": {
                    "x": reads["one"],
                    "y": reads["two"],
                    "sums": sums,
                    "met": Meeting("x", "y", dimension=True),
                }
            },
            {},
        )


@pytest.mark.parametrize("seed", [*range(2), *sliced(range(2, 24), 6)])
def test_whatever_happens_keys_are_what_the_plain_query_gives(tmp_path: Path, seed: int) -> None:
    world = World(
        tmp_path, exact=1 if seed % 4 == 3 else 1_000, fewest=2, widest=2 if seed % 2 else 1_000
    )
    with closing(world):
        History(seed, world).go(12)


TIMES = "  times:\n    transform: {{sql: 'SELECT k, {0} * v AS v FROM orders'}}\n"
SUMS = (
    "  sums:\n    transform:\n      sql: SELECT k, sum(v) AS v, max(v) AS most FROM times GROUP BY k\n"
    "      partition_by: [k]\n"
)


def sums_of(world: BranchWorld, branch: str, factor: int) -> None:
    """What is there is what its files say."""
    rows: dict[int, list[int]] = {}
    for path in (world.home / "orders").iterdir():
        for line in path.read_text().splitlines()[1:]:
            k, v = map(int, line.split(","))
            rows.setdefault(k, []).append(factor * v)
    expected = [(k, sum(values), max(values)) for k, values in rows.items()]
    assert world.values(branch, "shop.sums") == sorted(expected, key=repr)


def test_branches_keep_parts_of_their_own(tmp_path: Path) -> None:
    with closing(BranchWorld(tmp_path)) as world:

        def put(number: int, *keys: int) -> None:
            world.put(f"{number:02}.csv", *((k, number + v) for k in keys for v in range(3)))

        for number in range(FEWEST):
            put(number, 1, 2)
        world.apply(TIMES.format(1) + SUMS)
        world.settle()
        put(20, 1)
        world.settle()
        world.create()
        world.apply_in("dev", TIMES.format(2) + SUMS)
        # Row by row, parts of what came of that, and both keys
        assert world.settle()["transform"] == (FEWEST + 1) * 2 + 2
        put(21, 1)
        assert world.settle()["transform"] == 2 + (1 + 1) * 2
        sums_of(world, "main", 1)
        sums_of(world, "dev", 2)
        put(22, 2)
        assert world.settle()["transform"] == 2 + (1 + 1) * 2
        sums_of(world, "main", 1)
        sums_of(world, "dev", 2)
        world.apply_in("dev", TIMES.format(1) + SUMS)
        assert not world.ran()["transform"], "all of main is known"
        sums_of(world, "dev", 1)
        world.apply_in("dev", TIMES.format(2) + SUMS)
        assert not world.ran()["transform"]
        put(21, 1, 2)
        world.settle()
        sums_of(world, "main", 1)
        sums_of(world, "dev", 2)

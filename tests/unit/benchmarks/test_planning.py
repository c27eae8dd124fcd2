"""The planner benchmark goes on measuring what it says: every scenario finds the work that there
is, on a small graph.

Does not belong here: times.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.planning import contents, ours
from benchmarks.planning.graph import Shape, key, ring
from benchmarks.planning.plot import Line, chart
from benchmarks.planning.results import exponent
from benchmarks.planning.scenarios import EVERY, MANY, STEP, Scenario
from benchmarks.planning.seed import Kind, Seeder
from benchmarks.planning.trees import Wanted, build
from benchmarks.planning.world import World
from controlplane.core import tree
from tests.trees import MemoryNodes

PARTITIONS = 20
LARGE_ONLY = {"S4/1000"}


@dataclass(frozen=True)
class Seeds:
    """Databases that tests copy, in a folder that outlives them."""

    folder: Path
    files: dict[tuple[Kind, Shape], Path]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    return Seeds(tmp_path_factory.mktemp("seeds"), {})


def _copy(kept: Seeds, kind: Kind, shape: Shape, folder: Path) -> str:
    seeds = kept.files
    if (kind, shape) not in seeds:
        file = kept.folder / f"{len(seeds)}.db"
        url = f"sqlite:///{file}"
        ours.create(url)
        store = ours.open_counted(url)
        Seeder(store, shape).seed(kind)
        store.close()
        seeds[kind, shape] = file
    shutil.copyfile(seeds[kind, shape], folder / "copy.db")
    return f"sqlite:///{folder / 'copy.db'}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario", [s for s in EVERY if s.name not in LARGE_ONLY], ids=lambda s: s.name
)
def test_every_scenario_finds_the_work_that_there_is(
    scenario: Scenario, seeds: Seeds, tmp_path: Path
) -> None:
    shape = ring(1 if scenario.name.startswith("one") else 100, PARTITIONS)
    with closing(World(_copy(seeds, scenario.seed, shape, tmp_path), shape)) as world:
        scenario.run(world)
    assert world.found.seconds > 0
    assert world.found.statements > 0


def test_an_entry_told_alone_is_the_one_in_the_tree() -> None:
    nodes, count = MemoryNodes(), contents.CHUNK + 10
    root = Wanted("a", count).build(nodes)
    for number in (0, 7, contents.CHUNK - 1, contents.CHUNK, count - 1):
        assert tree.lookup(nodes, root, [key(number)]) == {
            key(number): contents.partition("a", number)
        }


def test_no_two_partitions_have_equal_contents() -> None:
    found = [
        e
        for name in ("a", "b")
        for c in contents.partitions(name, contents.CHUNK + 10)
        for e in c.entries()
    ]
    assert len({e.fragment for e in found}) == len({e.content for e in found}) == len(found)
    assert {e.content.rows for e in found} == {contents.ROWS}


def test_holes_are_left_out() -> None:
    nodes, wanted = MemoryNodes(), Wanted("a", 1000, without=100, offset=7)
    root = wanted.build(nodes)
    assert tree.totals(nodes, root).partitions == wanted.size == 990
    assert tree.lookup(nodes, root, [key(7), key(907)]) == {}


def test_processes_build_the_tree_that_one_would(tmp_path: Path) -> None:
    wanted = [Wanted(name, 120_000) for name in ("a", "b")]
    url = f"sqlite:///{tmp_path / 'trees.db'}"
    ours.create(url)
    store = ours.open_counted(url)
    built = build(store, wanted, 2)
    with store.read() as tx:
        assert [tree.totals(tx.nodes, built.roots[w]).partitions for w in wanted] == [
            120_000,
            120_000,
        ]
    nodes = MemoryNodes()
    assert built.roots[wanted[0]] == wanted[0].build(nodes)
    store.close()


def test_a_root_reaches_one_component_more_in_each_layer() -> None:
    assert ring(100, 1).cone == 55
    assert ring(10_000, 1, flow_components=10).flow(999) == "graph999"


def test_scattered_partitions_of_different_roots_have_different_keys() -> None:
    assert MANY * STEP <= 10_000


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_exponent_is_that_of_the_law(power: float) -> None:
    assert exponent({n: 3 * n**power for n in (100, 1000, 10_000)}) == pytest.approx(power)


def test_a_chart_shows_each_line_and_escapes_its_name() -> None:
    shown = chart(
        "a < b", "n", "s", [Line("S2 & S3", {100: 0.01, 1000: 0.02}), Line("other", {100: 1}, 1, 2)]
    )
    assert shown.count("<circle") == 3
    assert "S2 &amp; S3" in shown
    assert "a &lt; b" in shown

"""Packs as users meet them: a dataset of small files whose first leaf stays as it is, read whole
and as a table.

Steps of one story. sales -all-> ranked
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import duckdb
import pytest
from deltalake import DeltaTable

from controlplane.core.tree.shape import boundaries
from tests.e2e.conftest import LASTING, closing, ways
from tests.e2e.tables import by_deltalake
from tests.e2e.workspace import Run, Workspace
from tests.slices import in_turn

# One mode's story a commit, and that of the example at each (`test_thrift`): its plans are asked of
# property, its rows of spark/test_packs. Here they go through processes.
pytestmark = in_turn(3, 4)

FLOW = """
dataflow: shop
components:
  sales:
    read:
      connector: files
      path: sales/*.csv
      format: csv
      options: {header: true}
      schema: "k INT, v INT"
    sort_by: [v]
  ranked:
    transform:
      sql: SELECT k, v, row_number() OVER (ORDER BY v, k) AS place FROM sales
"""
RANKED = "SELECT k, v, row_number() OVER (ORDER BY v, k) FROM read_csv('{sales}') ORDER BY ALL"
LEAF = 24


def names() -> tuple[list[str], list[str]]:
    """Of files: those of a leaf, and some of the next one."""
    every = [f"{n:06}.csv" for n in range(20_000)]
    ends = [-1, *boundaries(every)]
    end = next(end for before, end in pairwise(ends) if end - before > LEAF)
    return every[end + 1 - LEAF : end + 1], every[end + 1 : end + 6]


PACKED, REST = names()


@pytest.fixture(scope="module", params=ways(7))
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def story(module_folder: Path, way: str) -> Iterator[Workspace]:
    with closing(Workspace(module_folder / way, lasts=way == LASTING)) as workspace:
        workspace.write("shop.yaml", FLOW)
        for number, name in enumerate([*PACKED, *REST[:3]]):
            workspace.write(f"sales/{name}", sales(number))
        yield workspace


def sales(number: int) -> str:
    return "\n".join(["k,v", *(f"{number},{(number * 37 + i * 11) % 100}" for i in range(5)), ""])


def settled(story: Workspace) -> Run:
    run = story.run("shop.yaml")
    run.assert_up_to_date()
    wanted = duckdb.sql(RANKED.format(sales=f"{story.folder}/sales/*.csv")).fetchall()
    rows = by_deltalake(story.lake / "default" / "shop" / "ranked").to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == wanted
    sales = by_deltalake(story.lake / "default" / "shop" / "sales").to_pylist()
    assert sorted(tuple(row.values()) for row in sales) == [row[:2] for row in wanted]
    story.assert_tidy()
    assert story.ask("fsck", "--files")["findings"] == []
    return run


def files(story: Workspace, version: int | None = None) -> int:
    """Of the table."""
    return len(DeltaTable(str(story.lake / "default" / "shop" / "sales"), version).file_uris())


def test_nothing_is_known_to_be_stable_at_first(story: Workspace) -> None:
    assert settled(story).tasks == {"executed": LEAF + 3 + 1}
    assert files(story) == LEAF + 3


def test_what_a_late_file_leaves_alone_is_packed(story: Workspace) -> None:
    story.write(f"sales/{REST[3]}", sales(100))
    before = settled(story)
    assert before.tasks == {"executed": 1 + 1}
    assert before.value["tasks"]["other"] == 1 + 1  # a listing, a pack
    assert files(story) == 1 + 4
    assert before.datasets["sales"]["partitions"] == LEAF + 4


def test_nothing_changed(story: Workspace) -> None:
    settled(story).assert_idle()


def test_a_late_and_a_corrected_file_break_it_up(story: Workspace) -> None:
    story.write(f"sales/{REST[4]}", sales(101))
    assert settled(story).tasks == {"executed": 1 + 1}
    assert files(story) == 1 + 5
    story.write(f"sales/{PACKED[5]}", sales(200))
    assert settled(story).tasks == {"executed": 1 + 1}
    table = DeltaTable(str(story.lake / "default" / "shop" / "sales"))
    assert files(story) == LEAF + 5
    assert [files(story, table.version() - back) for back in (1, 2)] == [LEAF + 5, 1 + 5]


def test_they_may_be_given_up(story: Workspace) -> None:
    assert story.ask("gc", "--packs")["packs"] == 1
    settled(story).assert_idle()

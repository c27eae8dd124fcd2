"""Folders `key=value` as columns of a dataset: which have them, what a moved file costs, how a
schema follows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Source
from controlplane.core.model.revisions import Revision, edition_of, in_edition, without_edition
from controlplane.operations.desired import branches, controls, merging
from dataplane.contract.key_folders import NULL
from dataplane.contract.schemas import Json
from tests.unit.expectations.world import BRANCH
from tests.unit.schema.world import World

ORDERS = "shop.orders"
EU, US = "region=EU/a.csv", "region=US/b.csv"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.file(EU, "k\n1\n")
    world.file(US, "k\n1\n")
    yield world
    world.store.close()


def read(world: World, **keys: Any) -> None:
    world.read(path=f"{world.home}/orders/**/*.csv", **keys)


def age(world: World) -> None:
    """The component was made before folders were columns."""
    with world.store.begin() as tx:
        live = tx.blueprints.revisions(BRANCH)["shop"]
        uids = {name: without_edition(uid) for name, uid in live.uids.items()}
        tx.blueprints.put(replace(live, number=live.number + 1, uids=uids), live.number)


def revision(world: World, branch: str = BRANCH) -> Revision:
    with world.store.read() as tx:
        return tx.blueprints.revisions(branch)["shop"]


def test_equal_files_in_two_folders_have_rows_of_their_own(world: World) -> None:
    read(world, children=["SELECT region, count(*) AS n FROM orders GROUP BY region"])
    assert world.settle()["parse"] == 2
    assert world.schema == {"k": "integer", "region": "string"}
    assert world.rows() == [("1", "EU"), ("1", "US")]
    assert world.rows("shop.c0") == [("EU", 1), ("US", 1)]


def test_a_file_is_read_again_where_its_folder_is_another_one(world: World) -> None:
    read(world)
    world.settle()
    renamed = world.home / "orders/region=EU/c.csv"
    (world.home / "orders" / EU).rename(renamed)
    assert world.settle()["parse"] == 0
    renamed.parent.rename(renamed.parent.with_name("region=UK"))
    assert world.settle()["parse"] == 1
    assert world.rows() == [("1", "UK"), ("1", "US")]


def test_files_of_one_partition_that_swap_folders_are_read_again(world: World) -> None:
    world.file(US, "k\n2\n")
    read(world, partition="*/*.{kind}")
    assert world.settle()["parse"] == 1
    assert world.rows() == [("1", "EU"), ("2", "US")]
    world.file(EU, "k\n2\n")
    world.file(US, "k\n1\n")
    assert world.settle()["parse"] == 1
    assert world.rows() == [("1", "US"), ("2", "EU")]


def test_what_was_there_before_stays_as_it_is_until_its_schema_is_taken_back(world: World) -> None:
    read(world)
    age(world)
    world.settle()
    assert world.schema == {"k": "integer"}
    read(world, options={"header": True, "sep": ","})  # an edit changes nothing about folders
    world.settle()
    assert world.schema == {"k": "integer"}

    number = revision(world).number
    assert controls.refresh(world.ctx, BRANCH, ORDERS, schema=True)["schemas"] == [ORDERS]
    assert revision(world).number == number + 1
    world.settle()
    assert world.rows() == [("1", "EU"), ("1", "US")]
    controls.refresh(world.ctx, BRANCH, ORDERS, schema=True)
    assert revision(world).number == number + 1
    read(world)
    world.settle()
    assert world.schema == {"k": "integer", "region": "string"}


def test_the_key_says_it_for_old_and_new_datasets(world: World) -> None:
    read(world, hive_partitioning=False)
    world.settle()
    assert world.schema == {"k": "integer"}
    age(world)
    read(world, hive_partitioning=True)
    world.settle()
    assert world.rows() == [("1", "EU"), ("1", "US")]


def test_a_branch_has_it_apart_until_it_is_merged(world: World) -> None:
    read(world)
    age(world)
    world.settle()
    branches.create(world.ctx, "dev")
    controls.refresh(world.ctx, "dev", ORDERS, schema=True)
    editions = {b: edition_of(revision(world, b).uids["orders"]) for b in (BRANCH, "dev")}
    assert editions == {BRANCH: 1, "dev": 2}
    merging.merge_branch(world.ctx, "dev", BRANCH)
    assert edition_of(revision(world).uids["orders"]) == 2
    world.settle()
    assert world.schema == {"k": "integer", "region": "string"}


def test_a_file_outside_of_folders_has_null(world: World) -> None:
    world.file("c.csv", "k\n3\n")
    read(world)
    world.settle()
    assert world.rows() == [("1", "EU"), ("1", "US"), ("3",)]
    assert world.schema == {"k": "integer", "region": "string"}


def test_a_declared_type_counts_and_others_are_appended(world: World) -> None:
    read(world, schema="k INT, region STRING")
    world.settle()
    world.file("region=7/c.csv", "k\n1\n")
    world.settle()
    assert world.schema == {"k": "integer", "region": "string"}
    assert ("1", "7") in world.rows()


def test_a_key_that_is_new_is_a_change_of_the_schema(world: World) -> None:
    for name in (EU, US):
        world.remove(name)
    world.file("a.csv", "k\n1\n")
    read(world, policy="fail")
    world.settle()
    world.file(EU, "k\n1\n")
    world.settle()
    condition, message = world.error()
    assert condition == "schema-changed"
    assert "region" in message


FOLDERS = ("1", "007", "2.5", "1152921504606846976", "2024-01-01", "2024-01-01 10:00:00", "x", NULL)


@pytest.mark.parametrize("format", ["csv", "parquet"])
@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.data())
def test_any_split_of_folders_into_listings_gives_one_type(
    format: str, data: st.DataObject
) -> None:
    values = data.draw(st.permutations(FOLDERS))[: data.draw(st.integers(1, 4))]
    cuts = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    together = in_listings(values, [False] * len(values), format)
    assert in_listings(values, cuts, format) == together


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (("1", "x"), "string"),
        (("1", "007"), "string"),
        (("1152921504606846976", "2.5"), "string"),
        ((NULL, "1"), "integer"),
    ],
)
def test_a_folder_that_does_not_fit_widens_the_column_in_each_format(
    values: tuple[str, ...], kind: str
) -> None:
    for format in ("csv", "parquet"):
        schema, rows = in_listings(values, [True] * len(values), format)
        texts = sorted(text for _, *folder in rows for text in folder if text is not None)
        assert (schema["c"], texts) == (kind, sorted({*values} - {NULL}))


def in_listings(
    values: Sequence[str], cuts: Sequence[bool], format: str
) -> tuple[Json, list[tuple[Any, ...]]]:
    """The schema and the rows once a folder of each value is there; with a cut after a folder, it
    is listed."""
    with tempfile.TemporaryDirectory() as home:
        world = World(Path(home))
        try:
            for value, is_cut in zip(values, cuts, strict=True):
                world.file(f"c={value}/a.{format}", "k\n1\n")
                if is_cut:
                    world.read(path=f"{home}/orders/**/*.{format}", format=format)
                    world.settle()
            world.read(path=f"{home}/orders/**/*.{format}", format=format)
            world.settle()
            assert world.decision().status == "up_to_date"
            return world.schema, world.rows()
        finally:
            world.store.close()


def compiled(uid: str, keys: str = "") -> Source:
    text = f"{{dataflow: f, components: {{t: {{read: {{connector: files, path: /d/*, format: csv{keys}}}}}}}}}"
    node = (
        compile_revisions([Revision("main", "f", 1, text, {}, "f.yaml", {"t": uid}, "", "", 0.0)])
        .require()
        .nodes["f.t"]
    )
    assert isinstance(node, Source)
    return node


def test_identities_of_before_stay_and_files_outside_of_folders_share_their_results() -> None:
    old, new = compiled("u"), compiled(in_edition("u", 2))
    assert old.listing.hex() == GOLDEN
    assert compiled(in_edition("u", 2), ", hive_partitioning: false").logic == old.logic
    assert compiled("u", ", hive_partitioning: true").logic == new.logic != old.logic
    assert old.listing != new.listing
    assert old.parse == new.parse


GOLDEN = "0c77b66bea30fffc88363644965c70bd755fc85dac873877b55bcd80dc698eee"

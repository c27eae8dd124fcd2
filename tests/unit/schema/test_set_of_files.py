"""An inferred schema is a function of the set of files that were seen, in whatever order and split
they came."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from controlplane.core import tree
from controlplane.operations.desired import controls
from controlplane.operations.inspect import overview
from dataplane.contract.schemas import Json
from tests.slices import examples
from tests.unit.expectations.world import BRANCH
from tests.unit.schema.world import World

pytestmark = pytest.mark.property

VALUES = ["1", "3000000000", "0.5", "02134", "x", "2024-01-01", ""]
COLUMNS = st.lists(st.sampled_from("xyz"), unique=True, min_size=1)
FILES = st.dictionaries(
    st.sampled_from("abcdef"),
    COLUMNS.flatmap(
        lambda names: st.tuples(*(st.tuples(st.just(n), st.sampled_from(VALUES)) for n in names))
    ),
    min_size=1,
    max_size=5,
)
Files = dict[str, tuple[tuple[str, str], ...]]


def write(world: World, name: str, values: tuple[tuple[str, str], ...], format: str) -> None:
    if format == "json":
        world.file(
            f"{name}.json",
            json.dumps(
                {"s": {n: v or None for n, v in values}} | {n: v or None for n, v in values}
            ),
        )
    else:
        world.file(
            f"{name}.csv",
            "\n".join([",".join(n for n, _ in values), ",".join(v for _, v in values), ""]),
        )


def seen(world: World) -> list[tuple[str, Json]]:
    """The schema once all files are read, without columns for which only withdrawn files stand."""
    world.settle()
    assert world.decision().status == "up_to_date"
    return list(world.schema.items())


def in_splits(
    files: Files, order: list[str], cuts: list[bool], exact: int, format: str
) -> list[tuple[str, Json]]:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), exact=exact, window=exact + 1)
        try:
            for name, is_listed in zip(order, cuts, strict=True):
                write(world, name, files[name], format)
                if is_listed:
                    world.read(format=format)
                    world.settle()
            world.read(format=format)
            found = seen(world)
            controls.refresh(world.ctx, BRANCH, "shop.orders", schema=True)
            assert seen(world) == found  # as inferring all of them anew has it
            return found
        finally:
            world.store.close()


@pytest.mark.parametrize("format", ["csv", "json"])
@settings(
    max_examples=examples(8, 400),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(data=st.data())
def test_any_order_and_split_of_files_gives_one_schema(format: str, data: st.DataObject) -> None:
    files = data.draw(FILES)
    order = data.draw(st.permutations(sorted(files)))
    cuts = data.draw(st.lists(st.booleans(), min_size=len(files), max_size=len(files)))
    exact = data.draw(st.sampled_from([1000, 1]))
    together = in_splits(files, sorted(files), [False] * len(files), 1000, format)
    assert in_splits(files, order, cuts, exact, format) == together


def test_the_first_file_by_name_decides_the_order_of_columns(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.file("b.csv", "x,y\n1,2\n")
    world.read()
    world.settle()
    assert list(world.schema) == ["x", "y"]
    world.file("a.csv", "y,x\n1,2\n")
    world.settle()
    assert list(world.schema) == ["y", "x"]
    world.remove("a.csv")
    world.settle()
    assert list(world.schema) == ["y", "x"]  # it was seen
    controls.refresh(world.ctx, BRANCH, "shop.orders", schema=True)
    world.settle()
    assert list(world.schema) == ["x", "y"]
    world.store.close()


def test_columns_to_which_a_replaced_file_gave_one_place_go_by_name(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.file("m.csv", "y,x,z\n1,2,3\n")
    world.read()
    world.settle()
    world.file("m.csv", "x,z\n1,2\n")
    world.settle()
    assert list(world.schema) == ["x", "y", "z"]
    world.store.close()


def test_a_file_that_comes_while_an_output_is_half_built_loses_no_place_of_a_column(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, exact=1, window=2)
    world.file("m.csv", "x\n1\n")
    world.read()
    world.settle()
    for name in "nopq":
        world.file(f"{name}.csv", "y\n2\n")
    world.refresh()
    until_half_built(world)
    world.file("a.csv", "x\n3\n")
    world.settle()
    world.file("z.csv", "v\n4\n")
    world.settle()
    assert list(world.schema) == ["x", "y", "v"]
    world.store.close()


def until_half_built(world: World) -> None:
    for _ in range(10):
        world.work()
        world.once()
        with world.store.read() as tx:
            half_built, _ = tx.states.unfinished(BRANCH, ["shop.orders"])
        if any(building.root != tree.EMPTY_ROOT for building in half_built.values()):
            return
    raise AssertionError("no part of the output was committed")


def told(world: World) -> list[str]:
    [flow] = overview.status(world.ctx, BRANCH, None)["dataflows"]
    [orders] = (d for d in flow["datasets"] if d["name"] == "shop.orders")
    return orders.get("wider", [])


def test_a_column_without_any_value_is_left_out_and_told_until_a_file_has_one(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    world.file("a.json", json.dumps({"k": 1, "note": None}))
    world.read(format="json")
    world.settle()
    assert world.schema == {"k": "integer"}
    [sentence] = told(world)
    assert sentence.startswith("no object has a value in the column note")
    assert sentence.endswith("`schema: note STRING`")
    world.file("b.json", json.dumps({"k": 2, "note": 0.5}))
    assert world.settle()["parse"] == 1  # rows of the first file have NULL
    assert (world.schema, told(world)) == ({"k": "integer", "note": "double"}, [])
    assert world.rows() == [(1,), (2, 0.5)]
    world.store.close()


def test_an_empty_column_of_csv_is_text_until_a_file_has_a_value(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.file("a.csv", "k,v\n1,\n")
    world.read()
    world.settle()
    assert world.schema == {"k": "integer", "v": "string"}
    world.file("b.csv", "k,v\n2,7\n")
    world.settle()
    assert world.schema == {"k": "integer", "v": "integer"}
    world.file("c.csv", "k,v\n3,\n")
    assert world.settle() == {"parse": 1}
    world.store.close()


def test_a_code_in_a_later_file_makes_the_column_text(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.file("a.csv", "zip\n10001\n")
    world.read()
    world.settle()
    assert world.schema == {"zip": "integer"}
    world.file("b.csv", "zip\n02134\n")
    world.settle()
    assert (world.schema, world.rows()) == ({"zip": "string"}, [("02134",), ("10001",)])
    world.store.close()


def test_a_schema_that_an_earlier_version_pinned_stays(tmp_path: Path) -> None:
    """Its numbers are read as they were, its order stays, and new columns come last."""
    world = World(tmp_path)
    world.file("b.csv", "zip\n10001\n")
    world.read()
    world.settle()
    with world.store.begin() as tx:
        pin = tx.states.pinned_schemas(BRANCH, ["shop.orders"])["shop.orders"]
        tx.states.pin_schema(BRANCH, "shop.orders", pin._replace(history=None))
    world.file("a.csv", "x,zip\n1,02134\n")
    world.settle()
    assert list(world.schema.items()) == [("zip", "integer"), ("x", "integer")]
    controls.refresh(world.ctx, BRANCH, "shop.orders", schema=True)
    world.settle()
    assert list(world.schema.items()) == [("x", "integer"), ("zip", "string")]
    world.store.close()

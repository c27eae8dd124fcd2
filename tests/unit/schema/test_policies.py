"""What a read component's policy makes of files that are other than those before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.schema.ddl_schemas import struct
from tests.unit.schema.world import World

INT = "k,v\n1,1\n"
OTHER = "k,v\n2,2\n"


IN_WINDOWS = pytest.mark.parametrize("world", [1000, 1], ids=["exact", "windows"], indirect=True)


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    exact = getattr(request, "param", 1000)
    world = World(tmp_path, exact=exact, window=exact + 1)
    world.file("a.csv", INT)
    world.file("b.csv", OTHER)
    yield world
    world.store.close()


def assert_settled(world: World) -> None:
    assert world.decision().status == "up_to_date"
    assert not world.settle()


# --- types that grow ------------------------------------------------------------------------------


@IN_WINDOWS
def test_a_wider_integer_parses_its_own_file_alone(world: World) -> None:
    world.read(children=["SELECT k, v FROM orders", "SELECT k FROM orders"])
    world.settle()
    world.file("c.csv", "k,v\n3,3000000000\n")
    found = world.settle()
    # once in vain, once under the type that its values have; who does not read the column has the
    # new rows only
    assert found == {"parse": 2, "transform": 3 + 1, "analyse": 1}
    assert world.schema == {"k": "integer", "v": "long"}
    assert world.rows() == [("1", "1"), ("2", "2"), ("3", "3000000000")]
    assert_settled(world)


def test_one_wide_file_of_a_batch_does_not_parse_the_others_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.file("a.csv", INT)
    world.read()
    world.settle()
    for name in "bcd":
        world.file(f"{name}.csv", OTHER)
    world.file("c.csv", "k,v\n3,3000000000\n")
    world.file("d.csv", "k,v\n4,4\n")
    assert world.settle()["parse"] == 3 + 1
    assert len(world.rows()) == 4
    assert_settled(world)
    world.store.close()


@IN_WINDOWS
def test_a_type_that_old_fragments_cannot_have_parses_all_files_again(world: World) -> None:
    world.read()
    world.settle()
    world.file("c.csv", "k,v\n3,0.5\n")
    world.refresh()
    while not [i for i in world.decision().items if i.cause == "schema"]:
        assert world.once().changed + world.engine.step()
    assert world.settle()["parse"] == 3
    assert world.schema == {"k": "integer", "v": "double"}
    assert_settled(world)
    world.file("d.csv", "k,v\n4,4\n")  # narrower: fits
    assert world.settle()["parse"] == 1
    assert world.schema == {"k": "integer", "v": "double"}


@IN_WINDOWS
def test_several_files_grow_one_schema(world: World) -> None:
    world.read()
    world.settle()
    world.file("c.csv", "k,v\n3000000000,3\n")
    world.file("d.csv", "k,v\n4,4000000000\n")
    world.settle()
    assert world.schema == {"k": "long", "v": "long"}
    assert len(world.rows()) == 4
    assert_settled(world)


def test_text_holds_what_no_other_type_does_as_if_all_files_had_come_at_once(world: World) -> None:
    world.read(children=["SELECT k FROM orders"])
    world.settle()
    world.file("c.csv", "k,v\n3,x\n")
    world.settle()
    assert world.schema == {"k": "integer", "v": "string"}
    assert world.rows() == [("1", "1"), ("2", "2"), ("3", "x")]
    assert_settled(world)


def test_a_column_without_a_value_is_not_taken_for_text(world: World) -> None:
    world.read()
    world.settle()
    world.file("c.csv", "k,v\n3000000000,\n")
    world.settle()
    assert world.schema == {"k": "long", "v": "integer"}
    assert_settled(world)


def test_a_malformed_file_keeps_its_own_error(world: World) -> None:
    world.read(schema="k INT, v INT")
    world.settle()
    world.file("c.csv", "k,v\n3,0.5\n")  # a declared type is the declaration
    world.settle()
    assert world.error() == ("MALFORMED", "v is malformed")


@pytest.mark.parametrize("policy", ["append", "sync"])
def test_a_damaged_file_is_asked_for_its_columns_once(world: World, policy: str) -> None:
    world.read(policy)
    world.settle()
    world.file("c.csv", 'k,v,"w""x"\n3,3,damaged\n')  # such a header is left to Spark
    assert world.settle() == {"infer": 1}
    assert world.error() == ("MALFORMED", "c.csv is malformed")
    assert not world.settle()
    world.file("c.csv", 'k,v,"w""x"\n3,3,3\n')
    assert world.settle() == {"infer": 1, "parse": 1}
    assert_settled(world)


def test_files_that_do_not_fit_beside_a_damaged_one_are_asked_for_once(world: World) -> None:
    world.read("sync", format="json")
    lines(world, "a.json", {"k": 1, "s": {"x": 1}})
    world.settle()
    lines(world, "a.json", {"k": "x", "s": 1})
    world.file("b.json", "damaged")
    assert world.settle()["infer"] == 1
    assert not world.settle()
    world.remove("b.json")
    world.settle()
    assert world.decision().status in {"up_to_date", "failed"}
    assert not world.settle()


def test_fail_refuses_wider_types_too(world: World) -> None:
    world.read("fail")
    world.settle()
    world.file("c.csv", "k,v\n3,3000000000\n")
    world.settle()
    message = "column v is INT, and needs to be BIGINT for c.csv; schema_change is fail"
    assert world.error() == ("schema-changed", message)
    assert world.schema["v"] == "integer"


def test_columns_that_differ_in_case_only_are_an_error(world: World) -> None:
    world.read()
    world.settle()
    world.file("c.csv", "k,V\n3,3\n")
    world.settle()
    condition, message = world.error()
    assert (condition, "columns v and V (in c.csv) differ in case only" in message) == (
        "schema-clash",
        True,
    )
    assert world.rows() == [("1", "1"), ("2", "2")]


def test_fields_that_differ_in_case_only_are_an_error_before_they_are_published(
    world: World,
) -> None:
    lines(world, "a.json", {"c": {"a": 1}})
    lines(world, "b.json", {"c": {"A": 1}})
    world.read(format="json")
    world.settle()
    condition, message = world.error()
    assert (condition, "columns c.A and c.a (in a.json) differ in case only" in message) == (
        "schema-clash",
        True,
    )


# --- sync -----------------------------------------------------------------------------------------


@IN_WINDOWS
def test_sync_drops_a_column_with_its_last_file_and_who_uses_it_fails(world: World) -> None:
    world.read(
        "sync", children=["SELECT v FROM orders", "SELECT k FROM orders", "SELECT * FROM orders"]
    )
    world.settle()
    world.file("a.csv", "k\n1\n")
    world.settle()
    assert world.schema == {"k": "integer", "v": "integer"}  # b.csv has it still
    world.file("b.csv", "k,w\n2,0.5\n")
    world.settle()
    assert world.schema == {"k": "integer", "w": "double"}
    assert world.decision("shop.c0").status == "failed"
    assert world.rows("shop.c0") == [("2",), (None,)]  # as it was
    assert [world.decision(d).status for d in ("shop.c1", "shop.c2")] == ["up_to_date"] * 2
    world.file("b.csv", OTHER)
    world.settle()
    assert world.schema == {"k": "integer", "v": "integer"}
    assert world.decision("shop.c0").status == "up_to_date"


def test_append_keeps_a_column_that_no_file_has(world: World) -> None:
    world.read("append")
    world.settle()
    for name in "ab":
        world.file(f"{name}.csv", "k\n1\n")
    world.settle()
    assert world.schema == {"k": "integer", "v": "integer"}


def test_sync_keeps_what_is_declared_and_what_an_empty_source_had(world: World) -> None:
    world.read("sync", schema="k INT, v INT")
    world.settle()
    world.file("a.csv", "k,w\n1,x\n")
    world.settle()
    assert world.schema == {"k": "integer", "v": "integer", "w": "string"}
    for name in "ab":
        world.file(f"{name}.csv", "k\n1\n")
    world.settle()
    assert world.schema == {"k": "integer", "v": "integer"}
    for name in "ab":
        world.remove(f"{name}.csv")
    world.settle()
    assert (world.schema, world.rows()) == ({"k": "integer", "v": "integer"}, [])


@IN_WINDOWS
def test_sync_takes_the_type_that_all_files_have_now(world: World) -> None:
    world.read("sync")
    world.settle()
    for name in "ab":
        world.file(f"{name}.csv", f"k,v\n1,{name}\n")
    assert world.settle() == {"parse": 2 + 2, "infer": 1}  # in vain, and once the types are known
    assert world.schema == {"k": "integer", "v": "string"}
    assert world.rows() == [("1", "a"), ("1", "b")]
    assert_settled(world)


# --- fields of structs ----------------------------------------------------------------------------


def lines(world: World, name: str, *rows: object) -> None:
    world.file(name, "".join(json.dumps(row) + "\n" for row in rows))


def test_a_new_field_in_a_struct_is_no_silent_loss(world: World) -> None:
    world.read(format="json", children=["SELECT s FROM orders", "SELECT k FROM orders"])
    lines(world, "a.json", {"k": 1, "s": {"x": 1}})
    lines(world, "b.json", {"k": 2, "s": {"x": 2}})
    world.settle()
    lines(world, "c.json", {"k": 3, "s": {"x": None, "y": 3}})
    assert world.settle()["parse"] == 1  # structs may lack fields
    assert world.schema == {"k": "integer", "s": struct([("x", "integer"), ("y", "integer")])}
    assert_settled(world)


def test_columns_that_a_listing_cannot_tell_are_asked_for(world: World) -> None:
    world.read()
    world.settle()
    world.file("c.csv", 'k,v,"w""x"\n3,3,3\n')  # such a header is left to Spark
    assert world.settle() == {"infer": 1, "parse": 1}
    assert world.schema == {"k": "integer", "v": "integer", 'w"x': "integer"}
    world.file("c.csv", 'k,v,"y""z"\n3,3,3\n')
    world.read("fail")
    world.settle()
    world.file("c.csv", 'k,v,"y""x"\n3,3,3\n')
    world.settle()
    assert world.error() == (
        "schema-changed",
        'new column(s) y"x in c.csv, and schema_change is fail',
    )


def test_a_new_field_in_a_struct_counts_as_a_column_under_fail(world: World) -> None:
    world.read("fail", format="json")
    lines(world, "a.json", {"k": 1, "s": {"x": 1}})
    world.settle()
    lines(world, "c.json", {"k": 3, "s": {"x": 3, "y": 3}})
    world.settle()
    assert world.error() == (
        "schema-changed",
        "new column(s) s.y in c.json, and schema_change is fail",
    )

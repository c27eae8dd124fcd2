"""Searching by words: where they are found, which hit comes first, and how partitions are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.search_words import Facts, Word, matches, words_of
from controlplane.operations.context import Context
from controlplane.operations.explore import search as searching
from controlplane.operations.explore.search import search
from tests.unit.expectations.world import World

REST = """\
  late_orders:
    description: Orders that came after the day was closed, with the remarks of the warehouse on each
    owner: Ann
    tags: [Gold, finance]
    transform: {sql: 'SELECT k, v AS late_minutes FROM orders'}
  wrong: {owner: bob, transform: {sql: 'SELECT no_such_function(k) AS k FROM orders'}}
  total: {tags: [gold], transform: {sql: 'SELECT sum(late_minutes) AS minutes FROM late_orders'}}
  copied: {write: {connector: files, from: total, path: '%s/out', format: json}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    world.put("2013-01-01.csv", (1, 10))
    world.put("2013-02-01.csv", (2, 20))
    world.apply(REST % tmp_path)
    world.settle()
    yield world
    world.store.close()


def found(world: World, query: str) -> list[str]:
    return [
        hit["dataset"].removeprefix("shop.") for hit in search(world.ctx, "main", query)["items"]
    ]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("late", ["late_orders"]),
        ("orders", ["orders", "late_orders"]),  # the whole name first
        ("minutes", ["late_orders", "total"]),
        ("col:minutes", ["late_orders", "total"]),
        ("col:late orders", ["late_orders"]),
        ("tag:gold", ["late_orders", "total"]),
        ("owner:ann", ["late_orders"]),
        ("state:failed", ["wrong"]),
        ("WAREHOUSE", ["late_orders"]),
        ('"day was closed"', ["late_orders"]),
        ("day gold", ["late_orders"]),
        ("col:gold", []),
        ("nothing:here", []),
        ("2013-02", ["late_orders", "orders"]),
        ("2013-02 gold", ["late_orders"]),
        ("2014", []),
    ],
)
def test_words_are_found(world: World, query: str, names: list[str]) -> None:
    assert found(world, query) == names


def test_what_was_found_is_said(world: World) -> None:
    [hit] = search(world.ctx, "main", "closed")["items"]
    assert (hit["kind"], hit["state"], hit["more"]) == ("sql", "stale", 0)
    [match] = hit["matches"]
    assert match["field"] == "description"
    assert match["text"].startswith("Orders that came after")
    assert match["text"].endswith("…")
    keyed = search(world.ctx, "main", "2013")["items"][0]
    assert [match["text"] for match in keyed["matches"]] == ["2013-01-01.csv", "2013-02-01.csv"]


def test_without_a_word_all_are_told(world: World) -> None:
    everything = search(world.ctx, "main", " ", limit=2)
    assert ([hit["dataset"] for hit in everything["items"]], everything["total"]) == (
        ["shop.copied", "shop.late_orders"],
        5,
    )


def test_that_partitions_of_some_were_not_looked_at_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "MOST_KEYED", 1)
    answer = search(world.ctx, "main", "2013")
    assert (len(answer["items"]), answer["total"]) == (1, 1)
    assert answer["notes"] == [
        "partitions were looked for in 1 of 3 datasets: add a word that says which"
    ]


def test_a_search_takes_a_few_statements(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("2013-01-01.csv", (1, 10))
    world.apply(REST % tmp_path)
    world.settle()
    found(world, "2013")  # which plans
    before = world.store.statements
    assert len(found(world, "2013")) == 2
    assert world.store.statements - before <= 4
    world.store.close()


def test_a_damaged_tree_hides_no_other_dataset(world: World) -> None:
    with world.store.begin() as tx:
        tx.upkeep.drop_nodes([tx.states.newest("main", ["shop.orders"])["shop.orders"].root], 2e9)
    answer = search(Context(world.store), "main", "2013-02")
    assert [hit["dataset"] for hit in answer["items"]] == ["shop.late_orders"]


def test_words_and_where_they_are_to_be() -> None:
    assert words_of('col:"X y" late') == (Word("x y", "X y", "column"), Word("late", "late", None))
    assert words_of("12:30") == (Word("12:30", "12:30", None),)
    assert words_of('tag: "') == (Word("tag:", "tag:", None),)
    assert [word.text for word in words_of("a b c d e f g h i j k l")][-1] == "j"


def test_text_of_users_is_text() -> None:
    facts = Facts("a.b", ("col*",), "50% (of) [all]", (), "", "stale")
    assert [one.field for one in matches(words_of("(of)")[0], facts)] == ["description"]
    assert [one.field for one in matches(words_of("col*")[0], facts)] == ["column"]
    assert matches(words_of(".*")[0], facts) == []

"""States and their history, pinned schemas, publications, targets, listings, nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.core.errors import StaleState
from controlplane.core.model.pins import FileColumns, Pin, Widening
from tests.store.conftest import World
from tests.store.examples import (
    ODD_KEYS,
    SCHEMA,
    d,
    error,
    listing,
    publication,
    source_partition,
    state,
    target,
)


def test_the_newest_state_counts(world: World) -> None:
    with world.begin() as tx:
        tx.states.commit(state(1), 0)
        tx.states.commit(state(2, schema={"type": "struct", "fields": []}, inputs={}, cut={}), 1)
        tx.states.commit(state(1, "flights.other"), 0)
        tx.states.commit(state(3, branch="dev"), 2)
    with world.read() as tx:
        newest = state(2, schema={"type": "struct", "fields": []}, inputs={}, cut={})
        assert tx.states.newest("main") == {
            "flights.daily": newest,
            "flights.other": state(1, "flights.other"),
        }
        assert tx.states.newest("main", ["flights.daily", "nope"]) == {"flights.daily": newest}
        assert tx.states.newest("dev", ["flights.daily"]) == {
            "flights.daily": state(3, branch="dev")
        }


@pytest.mark.parametrize(("seq", "expected"), [(1, 0), (3, 2), (2, 0), (3, 1)])
def test_a_stale_state_changes_nothing(world: World, seq: int, expected: int) -> None:
    with world.begin() as tx:
        tx.states.commit(state(1), 0)
    with pytest.raises(StaleState), world.begin() as tx:
        tx.states.commit(state(seq, rows=7), expected)
    with world.read() as tx:
        assert tx.states.history("main", "flights.daily", 9) == (state(1),)


def test_history_goes_back_page_by_page(world: World) -> None:
    with world.begin() as tx:
        for seq in range(1, 8):
            tx.states.commit(state(seq), seq - 1)
        assert [s.seq for s in tx.states.history("main", "flights.daily", 3)] == [7, 6, 5]
        assert [s.seq for s in tx.states.history("main", "flights.daily", 3, before_seq=5)] == [
            4,
            3,
            2,
        ]
        assert tx.states.history("main", "flights.daily", 3, before_seq=2) == (state(1),)
        assert tx.states.history("main", "flights.daily", 3, before_seq=1) == ()
        assert tx.states.history("main", "flights.none", 3) == ()


def test_the_last_states_of_many_datasets_are_one_statement(world: World) -> None:
    with world.begin() as tx:
        for name, many in (("flights.daily", 4), ("flights.raw", 1)):
            for seq in range(many):
                tx.states.commit(state(seq + 1, name), seq)
    with world.read() as tx:
        tx.states.recent("main", None, 9)  # schemas are read once
        before = world.store.statements
        found = tx.states.recent("main", ["flights.daily", "flights.raw", "flights.none"], 2)
        assert world.store.statements - before == 1
        assert {name: [s.seq for s in states] for name, states in found.items()} == {
            "flights.daily": [4, 3],
            "flights.raw": [1],
        }
        assert found["flights.daily"][0] == state(4)
        assert tx.states.recent("main", None, 2) == found
        assert tx.states.recent("dev", None, 2) == found


def test_pinned_schemas(world: World) -> None:
    with world.begin() as tx:
        assert tx.states.pinned_schemas("main", ["flights.raw"]) == {}
        widened = Widening("n", "INT", "DOUBLE", (("3.csv", d(3)), ("", d(4))))
        tx.states.pin_schema("main", "flights.raw", Pin(d(1), SCHEMA, (widened,)))
        assert tx.states.pinned_schemas("main", ["flights.raw"]) == {
            "flights.raw": Pin(d(1), SCHEMA, (widened,))
        }
        seen = Pin(
            d(1),
            SCHEMA,
            (widened,),
            FileColumns({"n": ("1.csv", 0), "s\x1fx": ("2.csv", 3)}, frozenset("n")),
        )
        tx.states.pin_schema("main", "flights.raw", seen)
        assert tx.states.pinned_schemas("main", ["flights.raw"]) == {"flights.raw": seen}
        tx.states.pin_schema("main", "flights.raw", Pin(d(2), SCHEMA))
        assert tx.states.pinned_schemas("main", ["flights.raw"]) == {
            "flights.raw": Pin(d(2), SCHEMA)
        }


def test_publications_and_targets(world: World) -> None:
    with world.begin() as tx:
        for n in (1, 2):
            tx.projections.put_publication(publication(n))
            tx.projections.put_target(target("flights.out", n))
        tx.projections.put_publication(publication(1, "flights.other"))
        tx.projections.put_target(replace(target("flights.other"), order=5, content_digest=d(3)))
        tx.projections.put_target(replace(target("flights.other"), order=7, content_digest=d(4)))
    with world.read() as tx:
        assert tx.projections.publications("main", ["flights.daily"]) == {
            "flights.daily": publication(2)
        }
        assert set(tx.projections.publications("main")) == {"flights.daily", "flights.other"}
        other = replace(target("flights.other"), order=7, content_digest=d(4))
        assert tx.projections.targets("main") == {
            "flights.out": target("flights.out", 2),
            "flights.other": other,
        }
        assert tx.projections.targets("main", ["flights.other"]) == {"flights.other": other}
        assert tx.projections.targets("dev") == {}


def test_listings_are_replaced_but_requests_are_not_lost(world: World) -> None:
    with world.begin() as tx:
        tx.listings.put(listing(1, requested=1))
        tx.listings.put(
            listing(2, root=None, at=None, error=error(), held={"before": 9, "lost": 8})
        )
    with world.begin() as tx:
        tx.listings.put(listing(1, requested=3, served=1, objects=8))
        tx.listings.put(listing(1, requested=2, served=2, root=None))
        assert tx.listings.get([d(1), d(3)]) == {d(1): listing(1, requested=3, served=2, root=None)}
        assert tx.listings.get([d(2)])[d(2)].held == {"before": 9, "lost": 8}
        tx.listings.put(listing(2))
        assert tx.listings.get([d(2)]) == {d(2): listing(2)}


def test_source_partitions(world: World) -> None:
    with world.begin() as tx:
        tx.listings.put_partitions(d(1), [source_partition(key) for key in ODD_KEYS], [])
        tx.listings.put_partitions(d(2), [source_partition("")], [])
    with world.begin() as tx:
        tx.listings.put_partitions(
            d(1), [source_partition("", 2), source_partition("new")], [ODD_KEYS[1], "nope"]
        )
        found = tx.listings.partitions(d(1), [*ODD_KEYS, "new"])
        assert found == {
            k: source_partition(k, 2 if k == "" else 1)
            for k in (*ODD_KEYS, "new")
            if k != ODD_KEYS[1]
        }
        assert tx.listings.partitions(d(2), [""]) == {"": source_partition("")}


def test_a_key_that_goes_and_comes_in_one_call_is_there(world: World) -> None:
    with world.begin() as tx:
        tx.listings.put_partitions(d(1), [source_partition("a")], ["a"])
        assert set(tx.listings.partitions(d(1), ["a"])) == {"a"}


def test_nodes_never_change(world: World) -> None:
    body = bytes(range(256)) * 100
    with world.begin() as tx:
        tx.nodes.put_nodes({d(1): body, d(2): b""})
        tx.nodes.put_nodes({d(1): b"other", d(3): b"3"})
    with world.read() as tx:
        assert tx.nodes.get_nodes([d(1), d(2), d(3), d(4), d(1)]) == {
            d(1): body,
            d(2): b"",
            d(3): b"3",
        }

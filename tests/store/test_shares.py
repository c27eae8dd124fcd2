"""Shares, and the datasets in them."""

from __future__ import annotations

from tests.store.conftest import World
from tests.store.examples import share, shared_table


def test_shares_are_kept_as_they_were_put(world: World) -> None:
    with world.begin() as tx:
        tx.shares.put(share("b"))
        tx.shares.put(share("a"))
        tx.shares.put(share("b", id="another"))
    with world.read() as tx:
        assert tx.shares.all() == (share("a"), share("b", id="another"))


def test_a_share_goes_with_its_tables_alone(world: World) -> None:
    one, other = shared_table("x", "id of a"), shared_table("x", "id of b")
    with world.begin() as tx:
        tx.shares.put(share("a"))
        tx.shares.put(share("b"))
        for table in (one, other, shared_table("y", "id of a", schema="b", has_history=False)):
            tx.shares.put_table(table)
    with world.read() as tx:
        assert [(table.schema, table.name) for table in tx.shares.tables("id of a")] == [
            ("b", "y"),
            ("shop", "x"),
        ]
    with world.begin() as tx:
        tx.shares.drop_table(one)
        tx.shares.put_table(shared_table("y", "id of a", schema="b", has_history=True))
    with world.begin() as tx:
        (left,) = tx.shares.tables("id of a")
        assert left.has_history
        tx.shares.drop(share("a"))
    with world.read() as tx:
        assert tx.shares.all() == (share("b"),)
        assert (tx.shares.tables("id of a"), tx.shares.tables("id of b")) == ((), (other,))

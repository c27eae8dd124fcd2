"""Cursors over events: they only move on, each by itself, and not for one who was deposed."""

from __future__ import annotations

import pytest

from controlplane.core.model.leases import LOOP, Deposed
from controlplane.reconciler.leader import FencedStore
from tests.store.conftest import World

LONG_S = 3600.0


def test_a_cursor_is_where_it_was_moved_to(world: World) -> None:
    with world.begin() as tx:
        assert tx.cursor("a") is None
        tx.move_cursor("a", 0)
        assert tx.cursor("a") == 0
        tx.move_cursor("a", 7)
    with world.read() as tx:
        assert (tx.cursor("a"), tx.cursor("b")) == (7, None)


def test_a_cursor_never_goes_back(world: World) -> None:
    with world.begin() as tx:
        tx.move_cursor("a", 7)
    with world.begin() as tx:
        tx.move_cursor("a", 3)
        assert tx.cursor("a") == 7


def test_who_was_deposed_moves_none(world: World) -> None:
    with world.begin() as tx:
        lease = tx.take_lease(LOOP, "one", LONG_S)
        tx.end_lease(LOOP, lease.epoch)
    with world.begin() as tx:
        tx.take_lease(LOOP, "another", LONG_S)
    with (
        pytest.raises(Deposed),
        FencedStore(world.store, lease.epoch, world.namespace).begin(world.namespace) as fenced,
    ):
        fenced.move_cursor("a", 7)
    with world.read() as tx:
        assert tx.cursor("a") is None

"""Cursors over events: they only move on, each by itself, and not for one who was deposed."""

from __future__ import annotations

import pytest

from controlplane.core.model.leases import LOOP, Deposed
from controlplane.reconciler.leader import FencedStore
from tests.store.conftest import World

LONG_S = 3600.0


def test_a_cursor_is_where_it_was_moved_to(world: World) -> None:
    with world.begin() as tx:
        assert tx.events.cursor("a") is None
        tx.events.move_cursor("a", 0)
        assert tx.events.cursor("a") == 0
        tx.events.move_cursor("a", 7)
    with world.read() as tx:
        assert (tx.events.cursor("a"), tx.events.cursor("b")) == (7, None)


def test_a_cursor_never_goes_back(world: World) -> None:
    with world.begin() as tx:
        tx.events.move_cursor("a", 7)
    with world.begin() as tx:
        tx.events.move_cursor("a", 3)
        assert tx.events.cursor("a") == 7


def test_who_was_deposed_moves_none(world: World) -> None:
    with world.begin() as tx:
        lease = tx.leases.take(LOOP, "one", LONG_S)
        tx.leases.end(LOOP, lease.epoch)
    with world.begin() as tx:
        tx.leases.take(LOOP, "another", LONG_S)
    with (
        pytest.raises(Deposed),
        FencedStore(world.store, lease.epoch, world.namespace).begin(world.namespace) as fenced,
    ):
        fenced.events.move_cursor("a", 7)
    with world.read() as tx:
        assert tx.events.cursor("a") is None

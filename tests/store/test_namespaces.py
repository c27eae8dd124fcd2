"""Namespaces: the rows that tell of them, and the end of one with all that it has."""

from __future__ import annotations

import uuid

import pytest

from controlplane.core.model.leases import LOOP, Deposed
from controlplane.core.model.namespaces import Namespace
from controlplane.reconciler.leader import FencedStore
from tests.store.conftest import World
from tests.store.examples import branch, event, fragment, revision, share, trace


def test_namespaces_are_kept_as_they_were_put(world: World) -> None:
    one, other = Namespace("team-b", "alice", 2.0), Namespace("team-a", "bob", 1.0)
    with world.begin() as tx:
        tx.namespaces.put(one)
        tx.namespaces.put(other)
    with world.read() as tx:
        assert tx.namespaces.all() == (other, one)


def test_what_ends_goes_whole_and_alone(world: World) -> None:
    team, beside = uuid.uuid4().hex, uuid.uuid4().hex
    for name in (team, beside):
        with world.begin() as tx:
            tx.namespaces.put(Namespace(name, "alice", 1.0))
        with world.store.begin(name) as tx:
            tx.events.put([event("x")])
            tx.shares.put(share("a"))
    with world.begin() as tx:
        assert not tx.namespaces.is_in_use(team)
        tx.namespaces.put(Namespace(team, "alice", 1.0, ended=2.0))
        tx.namespaces.empty(team)
    with world.read() as tx:
        assert {one.name: one.ended for one in tx.namespaces.all()} == {team: 2.0, beside: None}
    with world.store.read(team) as tx:
        assert tx.shares.all() == ()
        assert tx.events.last() == 0
    with world.store.read(beside) as tx:
        assert tx.shares.all() == (share("a"),)
        assert tx.events.last() == 1


def test_a_dataflow_and_a_branch_are_in_use(world: World) -> None:
    with_flow, with_branch, with_files = (uuid.uuid4().hex for _ in range(3))
    with world.store.begin(with_flow) as tx:
        tx.blueprints.put(revision(), expected=None)
    with world.store.begin(with_branch) as tx:
        tx.branches.create(branch())
    with world.store.begin(with_files) as tx:
        tx.traces.put([trace(1, 1)], [fragment(1)])
    with world.read() as tx:
        assert tx.namespaces.is_in_use(with_flow)
        assert tx.namespaces.is_in_use(with_branch)
        assert not tx.namespaces.is_in_use(with_files)
    with world.store.begin(with_flow) as tx:
        tx.blueprints.delete_dataflow("main", "flights")
    with world.read() as tx:
        assert not tx.namespaces.is_in_use(with_flow)


def test_one_lease_fences_every_namespace(world: World) -> None:
    """The loop of one namespace keeps nothing once the loop of the installation is somebody
    else's."""
    team = uuid.uuid4().hex
    with world.begin() as tx:
        epoch = tx.leases.take(LOOP, "one", -1.0).epoch
    with FencedStore(world.store, epoch, world.namespace).begin(team) as tx:
        tx.shares.put(share("a"))
    with world.begin() as tx:
        tx.leases.take(LOOP, "another", 60.0)
    with pytest.raises(Deposed), FencedStore(world.store, epoch, world.namespace).begin(team) as tx:
        tx.shares.put(share("b"))
    with world.store.read(team) as tx:
        assert tx.shares.all() == (share("a"),)

"""Signed links."""

from __future__ import annotations

from dataclasses import replace

from tests.store.conftest import World
from tests.store.examples import link


def test_links_are_kept_as_they_were_put(world: World) -> None:
    bare = link(
        "b",
        partition=None,
        columns=(),
        where=None,
        limit=None,
        point="",
        compression="zstd",
        at=1.0,
    )
    with world.begin() as tx:
        tx.links.put(link("a"))
        tx.links.put(bare)
    with world.begin() as tx:
        assert tx.links.all() == (bare, link("a"))
        tx.links.put(replace(bare, revoked=True))
    with world.read() as tx:
        assert tx.links.get("b") == replace(bare, revoked=True)
        assert tx.links.get("a") == link("a")
        assert tx.links.get("c") is None

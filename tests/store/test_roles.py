"""Roles of namespaces."""

from __future__ import annotations

from controlplane.core.rights import EVERYWHERE
from controlplane.ports.store import Store
from tests.store.examples import role, token


def test_roles_are_of_one_namespace(store: Store) -> None:
    with store.begin() as tx:
        tx.access.put_role(role("b"))
        tx.access.put_role(role("a"))
        tx.access.put_role(role("b", permissions=frozenset({"data", "view"}), within=EVERYWHERE))
    with store.begin("team-a") as tx:
        assert tx.access.roles() == ()
        assert tx.access.role("a") is None
        tx.access.put_role(role("a", actor="bob"))
        tx.access.drop_role("b")
    with store.begin() as tx:
        assert tx.access.roles() == (
            role("a"),
            role("b", permissions=frozenset({"data", "view"}), within=EVERYWHERE),
        )
        assert tx.access.role("a") == role("a")
        tx.access.drop_role("a")
    with store.read() as tx:
        assert [one.name for one in tx.access.roles()] == ["b"]
    with store.read("team-a") as tx:
        assert tx.access.role("a") == role("a", actor="bob")


def test_what_a_token_may_do_by_its_roles_is_not_stored_with_it(store: Store) -> None:
    with store.begin() as tx:
        tx.access.put_token(token("t", scopes=("a",), roles=(role("a"),)))
        assert tx.access.token_by_id("t") == token("t", scopes=("a",))

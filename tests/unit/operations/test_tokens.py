"""Tokens whose text somebody chose."""

from __future__ import annotations

from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.store.memory.store import MemoryStore

TEXT = "hg_" + "x" * 40


def test_a_chosen_token_is_admitted_once_however_many_processes_start() -> None:
    store = MemoryStore()
    for _ in range(3):
        tokens.admit(Context(store, actor="local"), TEXT, "admin", ("admin",))
    found = tokens.authenticate(store, TEXT)
    assert found is not None
    assert found.scopes == ("admin",)
    assert [t["name"] for t in tokens.listing(Context(store, actor="local"))] == ["admin"]


def test_a_chosen_token_that_was_revoked_does_not_come_back() -> None:
    store = MemoryStore()
    ctx = Context(store, actor="local")
    tokens.admit(ctx, TEXT, "admin", ("admin",))
    tokens.revoke(ctx, tokens.listing(ctx)[0]["id"])
    tokens.admit(ctx, TEXT, "admin", ("admin",))
    assert tokens.authenticate(store, TEXT) is None

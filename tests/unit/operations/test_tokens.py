"""Tokens whose text somebody chose."""

from __future__ import annotations

import pytest

from controlplane.core.errors import AmbiguousName, NotFound
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from tests.stores import new_store

TEXT = "hg_" + "x" * 40


def test_a_chosen_token_is_admitted_once_however_many_processes_start() -> None:
    store = new_store()
    for _ in range(3):
        tokens.admit(Context(store, actor="local"), TEXT, "admin", ("admin",))
    found = tokens.authenticate(store, TEXT)
    assert found is not None
    assert found.scopes == ("admin",)
    assert [t["name"] for t in tokens.listing(Context(store, actor="local"))] == ["admin"]


def test_a_chosen_token_that_was_revoked_does_not_come_back() -> None:
    store = new_store()
    ctx = Context(store, actor="local")
    tokens.admit(ctx, TEXT, "admin", ("admin",))
    tokens.revoke(ctx, tokens.listing(ctx)[0]["id"])
    tokens.admit(ctx, TEXT, "admin", ("admin",))
    assert tokens.authenticate(store, TEXT) is None


def test_a_token_is_revoked_by_its_name() -> None:
    ctx = Context(new_store(), actor="local")
    for name in ("ci", "person"):
        tokens.create(ctx, name, ("admin",))
    tokens.revoke(ctx, "ci")
    assert {t["name"]: t["revoked"] for t in tokens.listing(ctx)} == {"ci": True, "person": False}
    with pytest.raises(NotFound, match="no live token with the id or name ci"):
        tokens.revoke(ctx, "ci")


def test_a_name_that_several_live_tokens_have_names_none_of_them() -> None:
    ctx = Context(new_store(), actor="local")
    texts = [tokens.create(ctx, "home", ("admin",))[0] for _ in range(3)]
    gone, *live = [t["id"] for t in tokens.listing(ctx)]
    tokens.revoke(ctx, gone)
    with pytest.raises(AmbiguousName) as caught:
        tokens.revoke(ctx, "home")
    assert str(caught.value).startswith("2 live tokens have the name home; revoke one by its id: ")
    assert all(id in str(caught.value) for id in live)
    assert gone not in str(caught.value)
    assert sum(tokens.authenticate(ctx.store, text) is not None for text in texts) == 2


def test_the_token_of_a_driver_has_no_name_to_be_revoked_by() -> None:
    ctx = Context(new_store(), actor="local")
    text, _ = tokens.create(ctx, "of driver-1", ("driver",), subject="driver-1")
    with pytest.raises(NotFound):
        tokens.revoke(ctx, "of driver-1")
    assert tokens.authenticate(ctx.store, text) is not None

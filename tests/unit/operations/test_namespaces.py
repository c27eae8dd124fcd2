"""Namespaces as administrators of the installation make and end them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.core.errors import (
    BadNamespace,
    NamespaceInUse,
    NameTaken,
    NotAdministered,
    NotFound,
)
from controlplane.core.model import namespaces as model
from controlplane.operations.context import Context
from controlplane.operations.desired import namespaces, tokens
from tests.property.engine import MemoryLake
from tests.store.examples import revision
from tests.stores import new_store


@pytest.fixture
def ctx() -> Context:
    return Context(new_store(), actor="ann")


def actions(ctx: Context) -> list[str]:
    with ctx.store.read() as tx:
        return [change.action for change in reversed(tx.audit.changes(None))]


def test_one_is_made_given_a_token_and_ended(ctx: Context) -> None:
    lake = MemoryLake()
    lake.objects = {"team-a/shop/x": b"", "team-a-b/shop/x": b"", "default/shop/x": b""}
    assert namespaces.create(ctx, "team-a")["by"] == "ann"
    text, token = namespaces.create_token(ctx, "team-a", "bob", ("admin",))
    assert text.startswith("hg_team-a.")
    found = tokens.authenticate(ctx.store, text)
    assert found is not None
    assert (found.id, found.namespace) == (token.id, "team-a")
    assert [one["name"] for one in namespaces.listing(ctx)] == ["default", "team-a"]
    namespaces.delete(ctx, "team-a", lake)
    assert tokens.authenticate(ctx.store, text) is None
    assert sorted(lake.objects) == ["default/shop/x", "team-a-b/shop/x"]
    assert namespaces.names(ctx.store) == ["default"]
    assert actions(ctx) == ["namespace.create", "namespace.token", "namespace.delete"]


def test_a_name_is_given_once(ctx: Context) -> None:
    namespaces.create(ctx, "team-a")
    with pytest.raises(NameTaken, match="there is a namespace"):
        namespaces.create(ctx, "team-a")
    with pytest.raises(NameTaken, match="there is a namespace"):
        namespaces.create(ctx, "default")
    namespaces.delete(ctx, "team-a", MemoryLake())
    with pytest.raises(NameTaken, match="not given again"):
        namespaces.create(ctx, "team-a")
    with pytest.raises(NotFound):
        namespaces.create_token(ctx, "team-a", "bob", ("admin",))


def test_one_that_is_in_use_stays(ctx: Context) -> None:
    namespaces.create(ctx, "team-a")
    with ctx.store.begin("team-a") as tx:
        tx.blueprints.put(revision(), expected=None)
    lake = MemoryLake()
    lake.objects = {"team-a/flights/x": b""}
    for name in ("team-a", "default"):
        with pytest.raises(NamespaceInUse):
            namespaces.delete(ctx, name, lake)
    assert lake.objects
    assert namespaces.show(ctx, "team-a")["dataflows"] == 1


def test_who_is_of_another_namespace_sees_and_makes_none(ctx: Context) -> None:
    namespaces.create(ctx, "team-a")
    theirs = replace(ctx, namespace="team-a")
    for ask in (
        lambda: namespaces.create(theirs, "team-b"),
        lambda: namespaces.listing(theirs),
        lambda: namespaces.show(theirs, "team-a"),
        lambda: namespaces.delete(theirs, "team-a", MemoryLake()),
        lambda: namespaces.create_token(theirs, "default", "bob", ("admin",)),
    ):
        with pytest.raises(NotAdministered):
            ask()
    text, _ = namespaces.create_token(theirs, "team-a", "bob", ("view",))
    assert text.startswith("hg_team-a.")


@pytest.mark.parametrize(
    "name",
    ["", "a", "ab", "Team", "team_a", "-a-b", "a--b", "team-", "x" * 41, "main", "a.b", "a/b"],
)
def test_names_that_none_can_have(ctx: Context, name: str) -> None:
    with pytest.raises(BadNamespace, match="such as team-a"):
        namespaces.create(ctx, name)


@pytest.mark.parametrize("name", ["default", "abc", "team-a", "a1-2-3", "x" * 40])
def test_ids_and_texts_tell_their_namespace(name: str) -> None:
    digits = "0123456789ab"
    for id in (
        model.id_in(name, digits),
        model.id_in(name, f"driver-{digits}"),
        model.id_in(name, f"worker-{digits}"),
    ):
        assert model.of_id(id) == name
        assert id.removeprefix("driver-").removeprefix("worker-").isalnum()
    assert model.of_text(model.text_in(name, "a-b_C")) == name
    assert (model.id_in("default", digits), model.text_in("default", "x")) == (digits, "x")


@pytest.mark.parametrize(
    "id",
    [
        "",
        "n",
        "0n",
        "abnzz",
        "driver-standard-refused",
        "0123n1",
        "0123nMFRGG",
        "ab" * 5 + "n",
        "é",
    ],
)
def test_what_tells_no_namespace_is_of_default(id: str) -> None:
    assert model.of_id(id) == "default"

"""Keys of the S3 view: what they read, and that their secrets are nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane import settings
from controlplane.bootstrap import Server
from controlplane.client import Headgate
from controlplane.core import scopes
from controlplane.core.errors import BadScope, NameTaken, NotFound
from controlplane.home import Home
from controlplane.operations.context import Context
from controlplane.operations.desired import s3_keys, tokens
from controlplane.settings import BadSetting
from tests.stores import new_store

INSTALLATION = b"s" * 64


def test_a_key_is_found_by_its_access_key_until_it_is_revoked() -> None:
    ctx = Context(new_store(), actor="ann")
    made = s3_keys.create(ctx, "notebooks", ["main/shop", "dev"])
    found = s3_keys.find(ctx.store, made.id)
    assert found is not None
    assert [str(scope) for scope in found.scopes] == ["main/shop", "dev"]
    s3_keys.revoke(ctx, "notebooks")
    assert s3_keys.find(ctx.store, made.id) is None
    with pytest.raises(NotFound):
        s3_keys.revoke(ctx, "notebooks")
    assert [entry["revoked"] for entry in s3_keys.listing(ctx)] == [True]


def test_an_expired_key_is_none() -> None:
    now = [100.0]
    ctx = Context(new_store(clock=lambda: now[0]))
    made = s3_keys.create(ctx, "short", ["main"], ttl_s=10)
    assert s3_keys.find(ctx.store, made.id) is not None
    now[0] += 10
    assert s3_keys.find(ctx.store, made.id) is None


def test_a_secret_belongs_to_one_key_of_one_installation_and_is_not_stored() -> None:
    ctx = Context(new_store())
    made = s3_keys.create(ctx, "one", ["main"])
    secret = s3_keys.secret_key(INSTALLATION, "default", made.id)
    assert len(secret) == 40
    assert secret == s3_keys.secret_key(INSTALLATION, "default", made.id)
    others = {
        (b"t" * 64, "default", made.id),
        (INSTALLATION, "other", made.id),
        (INSTALLATION, "default", "a"),
    }
    assert secret not in {s3_keys.secret_key(*other) for other in others}
    with ctx.store.read() as tx:
        assert secret not in repr((tx.access.tokens(), tx.audit.changes("main", 100)))


def test_neither_tokens_nor_drivers_are_keys_and_keys_are_no_tokens() -> None:
    ctx = Context(new_store())
    _, token = tokens.create(ctx, "ci", ("admin",))
    key = s3_keys.create(ctx, "notebooks", ["main"])
    assert s3_keys.find(ctx.store, token.id) is None
    assert [entry["name"] for entry in tokens.listing(ctx)] == ["ci"]
    assert [entry["access_key"] for entry in s3_keys.listing(ctx)] == [key.id]


def test_a_live_name_is_taken() -> None:
    ctx = Context(new_store())
    s3_keys.create(ctx, "one", ["main"])
    with pytest.raises(NameTaken):
        s3_keys.create(ctx, "one", ["dev"])


@pytest.mark.parametrize(
    "text", ["", "main/", "main/a/b/c", "ma in", "main/sho*", "main@3", "/shop", "ä"]
)
def test_what_is_no_scope_is_refused(text: str) -> None:
    with pytest.raises(BadScope):
        scopes.parse(text)


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        ("main", {"main/shop/dear", "main/shop/orders", "main/air/delays"}),
        ("*/shop", {"main/shop/dear", "main/shop/orders", "dev/shop/dear"}),
        ("main/shop/dear", {"main/shop/dear"}),
        ("main/*/dear", {"main/shop/dear"}),
        ("*", {"main/shop/dear", "main/shop/orders", "main/air/delays", "dev/shop/dear"}),
    ],
)
def test_a_scope_covers_what_it_names(scope: str, covered: set[str]) -> None:
    datasets = ["main/shop/dear", "main/shop/orders", "main/air/delays", "dev/shop/dear"]
    assert {d for d in datasets if scopes.allows([scopes.parse(scope)], *d.split("/"))} == covered
    assert scopes.parse(str(scopes.parse(scope))) == scopes.parse(scope)


def test_the_home_keeps_its_secret_to_itself(tmp_path: Path) -> None:
    first = Home(tmp_path).s3_secret()
    assert Home(tmp_path).s3_secret() == first
    assert len(first) == 64
    assert (tmp_path / "s3-secret").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["s3-secret"]


def test_a_secret_can_be_chosen_for_services_that_share_a_database(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x" * 32 + "\n")
    found = settings.read(tmp_path, {"HEADGATE_S3_SECRET_FILE": str(file)})
    assert found.s3_secret == "x" * 32
    assert "x" * 32 in settings.secrets_in({}, found)
    file.write_text("short-one")
    with pytest.raises(BadSetting) as refused:
        settings.read(tmp_path, {"HEADGATE_S3_SECRET_FILE": str(file)})
    assert "short-one" not in str(refused.value)


def test_services_with_one_first_token_make_the_same_secrets(tmp_path: Path) -> None:
    """As replicas on Kubernetes, whose homes end with their pods."""
    file, text = tmp_path / "token", "hg_" + "x" * 40
    file.write_text(text)
    for home, environ in (
        ("a", {"HEADGATE_ADMIN_TOKEN_FILE": str(file)}),
        ("b", {"HEADGATE_POOL": "none"}),
    ):
        found = settings.read(tmp_path / home, environ)
        with Server(found, "look") as server, Headgate(server.url, server.token) as client:
            made = client.create_s3_key("notebooks")
        installation = (
            s3_keys.installation_secret(text) if home == "a" else Home(tmp_path / home).s3_secret()
        )
        assert made["secret_key"] == s3_keys.secret_key(
            installation.encode(), "default", made["access_key"]
        )

"""Keys of the S3 view: an access key and a secret key, which read within their scopes.

Verifying a signature needs the secret. So it is derived from the installation's secret and the
access key each time, and not stored: access to the database is not enough to sign. Keys lie among
the tokens, under a hash that no text has.
"""

from __future__ import annotations

import hmac
import secrets
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.core import scopes
from controlplane.core.errors import AmbiguousName, NameTaken, NotFound
from controlplane.core.model import namespaces
from controlplane.core.model.access import Token
from controlplane.core.model.answers import S3KeyEntry
from controlplane.core.rights import EVERYTHING, Principal
from controlplane.core.scopes import Scope
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ports.store import Store, Tx

_SCOPE = "s3:"  # starts the scopes of such a token
_SUBJECT = "s3"
_TAG = b"headgate/s3-key/1\n"
_SECRET_BYTES = 30  # 40 characters, as AWS has them


@dataclass(frozen=True, slots=True)
class S3Key:
    """A live key. Its access key is `id`. `standing`: the rights of its maker, or else its own;
    streams end if they change."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    namespace: str
    standing: Principal
    # Of the token that made it: what it may not read, the key does not
    principal: Principal = EVERYTHING


def create(
    ctx: Context, name: str, read: Sequence[str], *, ttl_s: float | None = None, parent: str = ""
) -> Token:
    """A new key for these scopes, as the token whose id is its access key. `parent`: the token that
    it ends with, and reads no more than; empty: none. Raises BadScope, and NameTaken where a live
    key of the same parent has the name."""
    meant = tuple(dict.fromkeys(f"{_SCOPE}{scopes.parse(text)}" for text in read))
    with ctx.begin() as tx:
        now = tx.now()
        if any(key.name == name and key.is_live(now) for key in _keys(tx, parent)):
            raise NameTaken(
                f"a live S3 key has the name {name}; choose another, or revoke that one"
            )
        expires = None if ttl_s is None else now + ttl_s
        key = Token(
            namespaces.id_in(ctx.namespace, uuid.uuid4().hex[:20]),
            secrets.token_bytes(32),
            name,
            scopes=meant,
            subject=_SUBJECT,
            at=now,
            expires=expires,
            parent=parent,
        )
        tx.access.put_token(key)
        after = {"name": name, "read": read_scopes(key), "expires": expires}
        note_change(ctx, tx, "s3-key.create", key.id, after=after)
    return key


def secret_key(installation: bytes, namespace: str, access_key: str) -> str:
    """What belongs to an access key. `installation`: the secret of the installation."""
    derived = hmac.digest(installation, _TAG + f"{namespace}/{access_key}".encode(), "sha256")
    return urlsafe_b64encode(derived[:_SECRET_BYTES]).decode("ascii")


def installation_secret(admin_token: str) -> str:
    """The installation's secret where its first token was chosen, and no other: services that share
    a database share that token."""
    return hmac.digest(admin_token.encode(), b"headgate/s3-installation/1\n", "sha256").hex()


def find(store: Store, access_key: str) -> S3Key | None:
    """The live key with this access key, or None."""
    if not access_key.isalnum() or len(access_key) > 100:
        return None
    namespace = namespaces.of_id(access_key)
    with store.read(namespace) as tx:
        key, now = tokens.live(tx, tx.access.token_by_id(access_key)), tx.now()
        if key is None or not _is_s3(key):
            return None
        parent = tokens.live(tx, tx.access.token_by_id(key.parent)) if key.parent else None
    tokens.note_use(store, namespace, key, now)
    read, standing = tuple(map(scopes.parse, read_scopes(key))), (parent or key).principal
    return S3Key(
        key.id, key.name, read, namespace, standing, EVERYTHING if parent is None else standing
    )


def revoke(ctx: Context, key: str, *, parent: str | None = None) -> None:
    """End the key with this access key, or else the live one with this name; of those that a token
    made (None: of all). Raises NotFound, AmbiguousName."""
    with ctx.begin() as tx:
        tokens.end(ctx, tx, _meant(tx, key, parent), "s3-key.revoke")


def listing(ctx: Context, *, parent: str | None = None) -> list[S3KeyEntry]:
    """All keys, or those that a token made, without their secrets."""
    with ctx.read() as tx:
        return [
            {
                "access_key": key.id,
                "name": key.name,
                "read": read_scopes(key),
                "at": key.at,
                "expires": key.expires,
                "expired": key.expires is not None and key.expires <= tx.now(),
                "revoked": key.revoked,
                "parent": key.parent,
                "used": key.used,
            }
            for key in _keys(tx, parent)
        ]


def _meant(tx: Tx, text: str, parent: str | None) -> Token:
    keys, now = _keys(tx, parent), tx.now()
    for key in keys:
        if key.id == text:
            return key
    named = [key for key in keys if key.name == text and key.is_live(now)]
    if not named:
        raise NotFound(
            f"there is no live S3 key with the access key or name {text}; `headgate s3 keys list` has them"
        )
    if len(named) > 1:
        ids = ", ".join(key.id for key in named)
        raise AmbiguousName(
            f"{len(named)} live S3 keys have the name {text}; revoke one by its access key: {ids}"
        )
    return named[0]


def _keys(tx: Tx, parent: str | None) -> list[Token]:
    return [
        token for token in tx.access.tokens() if _is_s3(token) and parent in (None, token.parent)
    ]


def _is_s3(token: Token) -> bool:
    return bool(token.scopes) and all(scope.startswith(_SCOPE) for scope in token.scopes)


def read_scopes(key: Token) -> list[str]:
    """What it may read, as texts."""
    return [scope.removeprefix(_SCOPE) for scope in key.scopes]

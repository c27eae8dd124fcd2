"""Bearer tokens: 256 random bits, shown once, stored as SHA-256, with scopes, expiry and revocation."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Container, Sequence
from dataclasses import replace
from hashlib import sha256

from controlplane.core.errors import NotFound
from controlplane.core.model import Change, Token
from controlplane.operations.context import Context
from controlplane.ports import Store, Tx
from dataplane.contract import Json

PREFIX = "hg_"


def create(
    ctx: Context, name: str, scopes: Sequence[str], *, subject: str = "", ttl_s: float | None = None
) -> tuple[str, Token]:
    """A new token: its text, which is never seen again, and its record."""
    text = PREFIX + secrets.token_urlsafe(32)
    with ctx.store.begin(ctx.namespace) as tx:
        now = tx.now()
        expires = None if ttl_s is None else now + ttl_s
        token = Token(uuid.uuid4().hex[:12], _hash(text), name, tuple(scopes), subject or name, now, expires)
        tx.put_token(token)
        tx.put_change(Change(ctx.actor, ctx.request_id, "token.create", token.id, None, {"scopes": list(scopes)}, now))
    return text, token


def admit(ctx: Context, text: str, name: str, scopes: Sequence[str]) -> None:
    """A token whose text somebody else chose; nothing happens if it was there before, also if it is revoked by now.

    Its id follows from the text, so that processes that start at the same time make one.
    """
    with ctx.store.begin(ctx.namespace) as tx:
        if tx.token(_hash(text)) is None:
            id, now = _hash(text).hex()[:12], tx.now()
            tx.put_token(Token(id, _hash(text), name, tuple(scopes), name, now))
            tx.put_change(Change(ctx.actor, ctx.request_id, "token.admit", id, None, {"scopes": list(scopes)}, now))


def _hash(text: str) -> bytes:
    return sha256(text.encode()).digest()


def authenticate(store: Store, text: str, *, namespace: str = "default") -> Token | None:
    """The live token with this text, or None."""
    if not text.startswith(PREFIX):
        return None
    with store.read(namespace) as tx:
        token = tx.token(_hash(text))
        if token is None or token.revoked or (token.expires is not None and token.expires <= tx.now()):
            return None
    return token


def revoke(ctx: Context, id: str) -> Json:
    """Raises NotFound."""
    with ctx.store.begin(ctx.namespace) as tx:
        token = next((t for t in tx.tokens() if t.id == id), None)
        if token is None:
            raise NotFound(f"there is no token {id}")
        tx.put_token(replace(token, revoked=True))
        tx.put_change(Change(ctx.actor, ctx.request_id, "token.revoke", id, None, None, tx.now()))
    return {"revoked": id}


def revoke_drivers(tx: Tx, drivers: Container[str]) -> None:
    """Of drivers that have ended: what is left of one claims nothing more."""
    for token in tx.tokens():
        if "driver" in token.scopes and token.subject in drivers and not token.revoked:
            tx.put_token(replace(token, revoked=True))


def listing(ctx: Context) -> list[Json]:
    """All tokens that people made, without their texts."""
    with ctx.store.read(ctx.namespace) as tx:
        return [
            {
                "id": t.id,
                "name": t.name,
                "scopes": list(t.scopes),
                "at": t.at,
                "expires": t.expires,
                "expired": t.expires is not None and t.expires <= tx.now(),
                "revoked": t.revoked,
            }
            for t in tx.tokens()
            if t.subject == t.name  # a pool gives tokens to others
        ]

"""Bearer tokens: 256 random bits, shown once, stored as SHA-256, with scopes, expiry and
revocation.

A token belongs to a namespace, which its text and its id name (`core.model.namespaces`): it is
looked up there, and in no other.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256

from controlplane.core import rights
from controlplane.core.errors import AmbiguousName, NameTaken, NotFound
from controlplane.core.model import namespaces
from controlplane.core.model.access import Token
from controlplane.core.model.answers import TokenEntry, WithinAnswer
from controlplane.core.rights import EVERYWHERE, Principal, TokenScope
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.ports.store import Store, Tx

PREFIX = "hg_"
# Start the parent of a token that a rule of trust opened; the rule's id follows
LOGIN, TRUST = "login:", "trust:"
USE_NOTED_S = 60.0
_DRAIN = "drain"  # among the scopes of a driver that is to end
OURS = ("local", "loop", "pool")  # actors without a token


def create(
    ctx: Context,
    name: str,
    scopes: Sequence[str],
    *,
    subject: str = "",
    ttl_s: float | None = None,
    is_unique: bool = False,
    within: TokenScope = EVERYWHERE,
) -> tuple[str, Token]:
    """A new token: its text, which is never seen again, and its record.

    `is_unique`: the audit knows people by the names of their tokens, so no live token may have the
    same one. Raises NameTaken, and BadScope for a missing role, or for names that it cannot be
    narrowed to.
    """
    text = new_text(ctx.namespace)
    with ctx.begin() as tx:
        rights.check(scopes, within, {role.name: role for role in tx.access.roles()})
        now = tx.now()
        expires = None if ttl_s is None else now + ttl_s
        token = Token(
            namespaces.id_in(ctx.namespace, uuid.uuid4().hex[:12]),
            _hash(text),
            name,
            scopes=tuple(scopes),
            subject=subject or name,
            at=now,
            expires=expires,
            within=within,
        )
        if is_unique and (
            name in OURS
            or any(t.is_live(now) and name in (t.name, t.subject) for t in tx.access.tokens())
        ):
            raise NameTaken(
                f"a live token has the name {name}, and the audit tells people by it; choose another"
            )
        tx.access.put_token(token)
        after = {"name": name, "scopes": list(scopes), "expires": expires, **patterns(within)}
        note_change(ctx, tx, "token.create", token.id, after=after)
    return text, token


def admit(ctx: Context, text: str, name: str, scopes: Sequence[str]) -> None:
    """Store a token whose text an external party chose. Does nothing if it exists already, even if
    it is revoked by now.

    Its id follows from the text, so that processes that start at the same time make one.
    """
    with ctx.begin() as tx:
        if tx.access.token(_hash(text)) is None:
            id, now = _hash(text).hex()[:12], tx.now()
            tx.access.put_token(Token(id, _hash(text), name, tuple(scopes), name, now))
            after = {"scopes": list(scopes)}
            note_change(ctx, tx, "token.admit", id, after=after)


def new_text(namespace: str) -> str:
    """An unguessable text for a token of this namespace."""
    return PREFIX + namespaces.text_in(namespace, secrets.token_urlsafe(32))


def namespace_of(text: str) -> str:
    """The namespace in which a token with this text is looked up."""
    return namespaces.of_text(text.removeprefix(PREFIX))


def _hash(text: str) -> bytes:
    return sha256(text.encode()).digest()


def patterns(within: TokenScope) -> dict[str, list[str]]:
    every = {
        "dataflows": within.dataflows,
        "datasets": within.datasets,
        "branches": within.branches,
    }
    return {kind: list(patterns) for kind, patterns in every.items() if patterns}


def authenticate(store: Store, text: str) -> Token | None:
    """The live token with this text, or None. That it was used is noted, at most once a minute."""
    if not text.startswith(PREFIX):
        return None
    namespace = namespace_of(text)
    with store.read(namespace) as tx:
        token, now = live(tx, tx.access.token(_hash(text))), tx.now()
    if token is None:
        return None
    if "driver" not in token.scopes:  # of drivers the store knows when they were last seen
        note_use(store, namespace, token, now)
    return token


def note_use(store: Store, namespace: str, token: Token, now: float) -> None:
    """A database that refuses writes blocks no reader."""
    if token.used is None or now - token.used >= USE_NOTED_S:
        with suppress(OSError), store.begin(namespace) as tx:
            tx.access.touch_token(token.id, now)


def is_live(store: Store, token: str) -> bool:
    """Whether neither the token or S3 key with this id nor its maker has ended."""
    return standing(store, token) is not None


def standing(store: Store, token: str) -> Principal | None:
    """What the token with this id may do now, or for an S3 key the token that made it; None where
    it has ended."""
    with store.read(namespaces.of_id(token)) as tx:
        live_token = live(tx, tx.access.token_by_id(token))
        if live_token is None:
            return None
        maker = live(tx, tx.access.token_by_id(live_token.parent)) if live_token.parent else None
    return (maker or live_token).principal


def live(tx: Tx, token: Token | None) -> Token | None:
    """The same with its roles of now, unless it has ended, or the token or rule of trust that made
    it."""
    if token is None or not token.is_live(tx.now()) or not _has_maker(tx, token):
        return None
    return with_roles(tx, token)


def with_roles(tx: Tx, token: Token) -> Token:
    """With those roles of its namespace that it has, as they are now."""
    named_roles = (tx.access.role(scope) for scope in token.scopes if rights.is_role_name(scope))
    return replace(token, roles=tuple(role for role in named_roles if role is not None))


def _has_maker(tx: Tx, token: Token) -> bool:
    if token.parent.startswith((LOGIN, TRUST)):
        return tx.access.has_trust_rule(token.parent.partition(":")[2])
    return not token.parent or live(tx, tx.access.token_by_id(token.parent)) is not None


def revoke(ctx: Context, token: str) -> None:
    """End the token with this id, or else the live one with this name, or all that one person or
    job got by rules of trust. Raises NotFound, AmbiguousName."""
    with ctx.begin() as tx:
        for meant in _meant(tx, token):
            end(ctx, tx, meant, "token.revoke")


def end(ctx: Context, tx: Tx, token: Token, action: str) -> None:
    """Revoke a token, an S3 key or a recipient. `action`: as the audit names it."""
    tx.access.put_token(replace(token, revoked=True))
    before, after = ({"name": token.name, "revoked": revoked} for revoked in (token.revoked, True))
    note_change(ctx, tx, action, token.id, before=before, after=after)


def _meant(tx: Tx, token: str) -> list[Token]:
    """By its id, also if it is revoked; by a name only people's, and live ones."""
    every = tx.access.tokens()
    for candidate in every:
        if candidate.id == token:
            return [candidate]
    now = tx.now()
    named = [
        candidate
        for candidate in every
        if candidate.name == token and _is_of_people(candidate) and candidate.is_live(now)
    ]
    if not named:
        raise NotFound(
            f"there is no live token with the id or name {token}; `headgate token list` has them"
        )
    if len(named) == 1 or all(candidate.parent.startswith((LOGIN, TRUST)) for candidate in named):
        return named
    ids = ", ".join(candidate.id for candidate in named)
    raise AmbiguousName(
        f"{len(named)} live tokens have the name {token}; revoke one by its id: {ids}"
    )


def _is_of_people(token: Token) -> bool:
    """A pool gives its tokens to others."""
    return token.subject == token.name


def revoke_drivers(tx: Tx, drivers: Container[str]) -> None:
    """Revoke the tokens of drivers that have ended: the rest of such a driver claims nothing
    more."""
    for token in tx.access.tokens():
        if "driver" in token.scopes and token.subject in drivers and not token.revoked:
            tx.access.put_token(replace(token, revoked=True))


def drain_drivers(tx: Tx, drivers: Container[str]) -> None:
    """They finish their attempts, and get no new ones."""
    for token in tx.access.tokens():
        if "driver" in token.scopes and token.subject in drivers and not is_draining(token):
            tx.access.put_token(replace(token, scopes=(*token.scopes, _DRAIN)))


def is_draining(token: Token) -> bool:
    return _DRAIN in token.scopes


def shown(within: TokenScope) -> WithinAnswer:
    """Empty lists narrow nothing."""
    return {
        "dataflows": list(within.dataflows),
        "datasets": list(within.datasets),
        "branches": list(within.branches),
    }


def listing(ctx: Context) -> list[TokenEntry]:
    """All tokens that people made, without their texts."""
    with ctx.read() as tx:
        return [
            {
                "id": t.id,
                "name": t.name,
                "scopes": list(t.scopes),
                "at": t.at,
                "expires": t.expires,
                "expired": t.expires is not None and t.expires <= tx.now(),
                "revoked": t.revoked,
                "within": shown(t.within),
                "used": t.used,
            }
            for t in tx.access.tokens()
            if _is_of_people(t)
        ]

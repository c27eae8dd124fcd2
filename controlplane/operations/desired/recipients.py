"""Recipients: who reads shares. Each is a bearer token with no other permission.

Files of a share are read through the S3 view, under URLs that we sign for the recipient. There the
recipient is a key that reads the datasets of its shares, and its secret is never given out.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated

from pydantic import Field, Strict

from controlplane.core.errors import AmbiguousName, NameTaken, NotFound
from controlplane.core.model import namespaces
from controlplane.core.model.access import Token
from controlplane.core.model.answers.shares import RecipientEntry
from controlplane.core.model.shares import ShareRow
from controlplane.core.rights import Principal
from controlplane.core.scopes import Scope
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import shares, tokens
from controlplane.operations.desired.s3_keys import S3Key
from controlplane.operations.request_body import Label, RequestBody
from controlplane.ports.store import Store, Tx

DAY_S = 86_400.0
LONGEST_S = 366 * DAY_S


@dataclass(frozen=True, slots=True)
class Recipient:
    """A live one. `shares`: those that it reads, by name. `principal`: its rights, which end
    streams if they change."""

    id: str
    name: str
    shares: tuple[ShareRow, ...]
    principal: Principal

    @property
    def namespace(self) -> str:
        return namespaces.of_id(self.id)

    @property
    def actor(self) -> str:
        """As the audit names it."""
        return f"recipient {self.name}"


@dataclass(frozen=True, slots=True)
class NewRecipient(RequestBody):
    """Who reads which shares, and for how long."""

    name: Label
    shares: Annotated[
        tuple[Annotated[str, Field(max_length=200)], ...],
        Strict(False),
        Field(min_length=1, max_length=100),
    ]
    ttl_s: Annotated[float, Field(gt=0, le=LONGEST_S)] = 90 * DAY_S


def create(ctx: Context, new: NewRecipient) -> tuple[str, Token]:
    """A recipient of these shares: the text of its token, which is never seen again, and its
    record. Raises NotFound, and NameTaken where a live one has the name."""
    text = tokens.new_text(ctx.namespace)
    with ctx.begin() as tx:
        now = tx.now()
        if any(token.name == new.name and tokens.live(tx, token) for token in _recipients(tx)):
            raise NameTaken(
                f"a live recipient has the name {new.name}; choose another, or revoke that one"
            )
        share_ids = dict.fromkeys(shares.share_named(tx, share).id for share in new.shares)
        token = Token(
            namespaces.id_in(ctx.namespace, uuid.uuid4().hex[:20]),
            sha256(text.encode()).digest(),
            new.name,
            scopes=tuple(f"{shares.SCOPE}{id}" for id in share_ids),
            subject=f"recipient {new.name}",
            at=now,
            expires=now + new.ttl_s,
        )
        tx.access.put_token(token)
        after = {"name": new.name, "shares": list(new.shares), "expires": token.expires}
        note_change(ctx, tx, "recipient.create", token.id, after=after)
    return text, token


def revoke(ctx: Context, recipient: str) -> None:
    """End the recipient with this id, or else the live one with this name. Raises NotFound,
    AmbiguousName."""
    with ctx.begin() as tx:
        tokens.end(ctx, tx, _recipient_named(tx, recipient), "recipient.revoke")


def listing(ctx: Context) -> list[RecipientEntry]:
    """All recipients by name, without the texts of their tokens."""
    with ctx.read() as tx:
        recipient_tokens = sorted(_recipients(tx), key=lambda token: (token.name, token.at))
        return [entry_of(tx, token) for token in recipient_tokens]


def shown(ctx: Context, token: Token) -> RecipientEntry:
    with ctx.read() as tx:
        return entry_of(tx, token)


def entry_of(tx: Tx, token: Token) -> RecipientEntry:
    return {
        "id": token.id,
        "name": token.name,
        "shares": [share.name for share in _shares(tx, token)],
        "at": token.at,
        "expires": token.expires or 0.0,
        "expired": token.expires is not None and token.expires <= tx.now(),
        "revoked": token.revoked,
        "used": token.used,
    }


def find(store: Store, text: str) -> Recipient | None:
    """The live recipient whose token has this text, or None."""
    token = tokens.authenticate(store, text)
    if token is None or not _is_recipient(token):
        return None
    with store.read(token.namespace) as tx:
        return Recipient(token.id, token.name, _shares(tx, token), token.principal)


def s3_key(store: Store, access_key: str) -> S3Key | None:
    """What the live recipient with this id reads of the S3 view now, or None."""
    namespace = namespaces.of_id(access_key)
    with store.read(namespace) as tx:
        token = tokens.live(tx, tx.access.token_by_id(access_key)) if access_key.isalnum() else None
        if token is None or not _is_recipient(token):
            return None
        tables = [table for share in _shares(tx, token) for table in tx.shares.tables(share.id)]
    read = tuple(Scope(table.branch, *table.dataset.split(".", 1)) for table in tables)
    return S3Key(token.id, token.subject, read, namespace, standing=token.principal)


def _shares(tx: Tx, token: Token) -> tuple[ShareRow, ...]:
    return tuple(share for share in tx.shares.all() if f"{shares.SCOPE}{share.id}" in token.scopes)


def _recipients(tx: Tx) -> list[Token]:
    return [token for token in tx.access.tokens() if _is_recipient(token)]


def _is_recipient(token: Token) -> bool:
    return bool(token.scopes) and all(scope.startswith(shares.SCOPE) for scope in token.scopes)


def _recipient_named(tx: Tx, text: str) -> Token:
    every = _recipients(tx)
    for token in every:
        if token.id == text:
            return token
    named = [token for token in every if token.name == text and tokens.live(tx, token)]
    if not named:
        raise NotFound(
            f"there is no live recipient with the id or name {text}; `headgate recipient list` has them"
        )
    if len(named) > 1:
        ids = ", ".join(token.id for token in named)
        raise AmbiguousName(
            f"{len(named)} live recipients have the name {text}; revoke one by its id: {ids}"
        )
    return named[0]

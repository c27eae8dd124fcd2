"""Tokens and rights of callers, and answers to their calls."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.core.model import namespaces
from controlplane.core.rights import EVERYWHERE, NamedRole, Principal, TokenScope, principal_of


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token as stored: never its text, only the SHA-256 of it."""

    id: str
    hash: bytes
    name: str
    # Roles (core.rights) | driver; of an S3 key, s3:<scope>; of a recipient, share:<id>
    scopes: tuple[str, ...]
    subject: str
    at: float
    expires: float | None = None
    revoked: bool = False
    within: TokenScope = EVERYWHERE
    # Of an S3 key: the token that made it, with which it ends; empty: it stands alone
    parent: str = ""
    used: float | None = None  # when it was last seen, at most a minute late
    # Of its namespace, among its scopes, as they are now; not stored with it
    roles: tuple[NamedRole, ...] = ()

    @property
    def namespace(self) -> str:
        """The one in which it means anything."""
        return namespaces.of_id(self.id)

    def is_live(self, now: float) -> bool:
        """Whether it is neither revoked nor expired. Its maker may have ended."""
        return not self.revoked and (self.expires is None or self.expires > now)

    @property
    def principal(self) -> Principal:
        """What it may do through the API for people and programs."""
        return principal_of(self.scopes, self.within, {role.name: role for role in self.roles})


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What a request with an Idempotency-Key was answered."""

    key: str
    body: bytes  # digest of the request
    status: int
    response: str

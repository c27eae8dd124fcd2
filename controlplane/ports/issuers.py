"""Issuers of identity tokens: OpenID Connect providers of people, and of CI systems.

Does not belong here: what a token's holder may do (`core.trust_rules`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from controlplane.core.model.json_values import JsonObject


@dataclass(frozen=True, slots=True)
class UncheckedToken:
    """Whom a token says that it is from, and for. Nothing was checked."""

    issuer: str
    audiences: frozenset[str]


class Issuers(Protocol):
    """Checks identity tokens (JWT, RFC 7519). Safe to use from many threads; a call may wait for
    the network."""

    def named(self, text: str) -> UncheckedToken:
        """Raises BadIdentity for a text that is no JWT. Makes no network request."""

    def claims(self, text: str, issuer: str, audiences: Collection[str]) -> JsonObject:
        """The claims of a token, once its signature, times, issuer and audience are right: one of
        `audiences`.

        Raises BadIdentity; IssuerUnreachable where the keys of the issuer are not to be had now.
        """


@dataclass(frozen=True, slots=True)
class SignIn:
    """One sign-in: the values that the issuer gets, and the one that it gets only at the end
    (`verifier`).

    `back`: the address of ours to which it sends the browser.
    """

    back: str
    state: str
    nonce: str
    verifier: str


class SignOn(Protocol):
    """Signing in of people at one issuer: authorization code with PKCE (RFC 6749, RFC 7636). May
    wait for the network."""

    @property
    def issuer(self) -> str: ...

    @property
    def label(self) -> str:
        """What people call the issuer."""

    def address(self, signing: SignIn) -> str:
        """Where the browser goes. Raises IssuerUnreachable."""

    def claims(self, signing: SignIn, code: str) -> JsonObject:
        """The claims of the person who signed in. A code works once. Raises BadIdentity,
        IssuerUnreachable."""

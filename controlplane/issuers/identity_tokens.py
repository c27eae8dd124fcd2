"""Identity tokens: JWTs, checked with PyJWT against the keys that their issuer publishes."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, cast

from controlplane.core.errors import BadIdentity, MissingPackage
from controlplane.core.model.json_values import JsonObject
from controlplane.issuers.issuer_keys import KIND, Publications
from controlplane.ports.issuers import UncheckedToken

if TYPE_CHECKING:
    from types import ModuleType

LEEWAY_S = 30.0  # by which clocks may differ
LONGEST = 16_000
TIMES = ("exp", "iat", "nbf")
NEEDED = ["iss", "aud", "exp", "iat", "sub"]


def library() -> ModuleType:
    """PyJWT, with what it needs for signatures. It is loaded when the first token comes. Raises
    MissingPackage."""
    try:
        import cryptography  # noqa: F401  # without it PyJWT knows shared secrets alone
        import jwt
    except ModuleNotFoundError as e:
        raise MissingPackage("an identity token", e.name, "oidc") from e
    return jwt


class JwtIssuers:
    """Implements `ports.issuers.Issuers`."""

    def __init__(self, publications: Publications | None = None) -> None:
        self.publications = publications or Publications()

    def named(self, text: str) -> UncheckedToken:
        claims = _unchecked(text)["payload"]
        issuer, audience = claims.get("iss"), claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if not isinstance(issuer, str):
            raise BadIdentity("the identity token does not say who issued it")
        return UncheckedToken(
            issuer,
            frozenset(
                text_audience for text_audience in audiences if isinstance(text_audience, str)
            ),
        )

    def claims(self, text: str, issuer: str, audiences: Collection[str]) -> JsonObject:
        jwt = library()
        header = _unchecked(text)["header"]
        algorithm, id = header.get("alg"), header.get("kid")
        if algorithm not in KIND:
            raise BadIdentity(
                f"the identity token is signed by {str(algorithm)[:20]!r}, and not by a key of its issuer"
            )
        key = self.publications.of(issuer).key(id if isinstance(id, str) else None, algorithm)
        if key is None:
            raise BadIdentity(f"{issuer} has no key that this identity token could be signed with")
        try:
            decoded = jwt.decode(
                text,
                jwt.PyJWK(key, algorithm),
                algorithms=[algorithm],
                issuer=issuer,
                audience=list(audiences),
                leeway=LEEWAY_S,
                options={"require": NEEDED, "enforce_minimum_key_length": True},
            )
        except (
            jwt.PyJWTError,
            ValueError,
            TypeError,
            OverflowError,
        ) as e:  # times may be anything that JSON has
            raise BadIdentity(f"the identity token of {issuer} is refused: {e}") from e
        _require_numbers(decoded, issuer)
        return cast("JsonObject", decoded)


def _require_numbers(claims: dict[str, Any], issuer: str) -> None:
    """Times are numbers (RFC 7519, section 2); PyJWT also reads texts and truth values. Raises
    BadIdentity."""
    for name in TIMES:
        value = claims.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadIdentity(f"the identity token of {issuer} is refused: {name} is no number")


def _unchecked(text: str) -> dict[str, Any]:
    """Header and payload of an unverified token. Raises BadIdentity."""
    jwt = library()
    if len(text) > LONGEST:
        raise BadIdentity(f"an identity token has {LONGEST} characters at most")
    try:
        decoded = jwt.decode_complete(text, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError) as e:
        raise BadIdentity("this is no identity token (JWT) of an issuer") from e
    return cast("dict[str, Any]", decoded)

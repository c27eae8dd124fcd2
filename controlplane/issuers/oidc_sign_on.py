"""Signing in of people: authorization code with PKCE at one issuer.

OpenID Connect Core 1.0, section 3.1; PKCE by RFC 7636 with S256.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import quote, urlencode

from controlplane.core.errors import BadIdentity, IssuerUnreachable
from controlplane.core.model.json_values import JsonObject
from controlplane.core.trust_rules import host_of
from controlplane.issuers import fetching
from controlplane.issuers.identity_tokens import JwtIssuers
from controlplane.issuers.issuer_keys import Published, address_in
from controlplane.ports.issuers import SignIn
from controlplane.settings import SignOnSettings

BASIC, POST = "client_secret_basic", "client_secret_post"


@dataclass(frozen=True, slots=True)
class OidcSignOn:
    """Implements `ports.issuers.SignOn`."""

    settings: SignOnSettings
    issuers: JwtIssuers

    @property
    def issuer(self) -> str:
        return self.settings.issuer

    @property
    def label(self) -> str:
        return self.settings.label or host_of(self.settings.issuer)

    @property
    def _published(self) -> Published:
        return self.issuers.publications.of(self.settings.issuer)

    def address(self, signing: SignIn) -> str:
        place = address_in(self._published.metadata(), "authorization_endpoint")
        parameters = {
            "response_type": "code",
            "client_id": self.settings.client,
            "redirect_uri": signing.back,
            "scope": " ".join(self.settings.scopes),
            "state": signing.state,
            "nonce": signing.nonce,
            "code_challenge": challenge(signing.verifier),
            "code_challenge_method": "S256",
        }
        return f"{place}{'&' if '?' in place else '?'}{urlencode(parameters)}"

    def claims(self, signing: SignIn, code: str) -> JsonObject:
        claims = self.issuers.claims(
            self._exchanged(signing, code), self.issuer, [self.settings.client]
        )
        nonce, audience = claims.get("nonce"), claims.get("aud")
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode(), signing.nonce.encode()
        ):
            raise BadIdentity("the identity token belongs to another sign-in")
        is_for_others = isinstance(audience, list) and len(audience) > 1
        if (is_for_others or "azp" in claims) and claims.get("azp") != self.settings.client:
            raise BadIdentity("the identity token was given to another client")
        return claims

    def _exchanged(self, signing: SignIn, code: str) -> str:
        """The identity token for a code."""
        metadata = self._published.metadata()
        client, secret = self.settings.client, self.settings.secret
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": signing.back,
            "code_verifier": signing.verifier,
        }
        auth = None
        if secret is None:
            form["client_id"] = client
        elif _is_in_form(metadata):
            form |= {"client_id": client, "client_secret": secret}
        else:
            # As RFC 6749, section 2.3.1, says
            auth = (quote(client, safe=""), quote(secret, safe=""))
        status, answer = fetching.post(address_in(metadata, "token_endpoint"), form, auth)
        id_token = answer.get("id_token")
        if status >= 500:
            raise IssuerUnreachable(f"{self.issuer} answers with status {status}")
        if status != 200 or not isinstance(id_token, str):
            raise BadIdentity(
                f"{self.issuer} gives no identity token: {str(answer.get('error'))[:100]}"
            )
        return id_token


def _is_in_form(metadata: JsonObject) -> bool:
    """The issuer takes the secret of a client in no other way."""
    ways = metadata.get("token_endpoint_auth_methods_supported")
    return isinstance(ways, list) and BASIC not in ways and POST in ways


def challenge(verifier: str) -> str:
    """RFC 7636, section 4.2."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()

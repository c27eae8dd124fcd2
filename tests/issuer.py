"""A real issuer of identity tokens on a loopback port: metadata, keys that change, authorization
codes with PKCE.

It signs in whoever is set as its `person`, without asking. What a test sets in `broken` goes wrong.
Does not belong here: anything of Headgate.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

CLIENT, SECRET = "headgate", "a secret, with %"


@cache
def key_pair(name: str, kind: str = "RSA") -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    """One for each name; making them takes a while."""
    if kind == "EC":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(
        public_exponent=65537, key_size=1024 if kind == "weak" else 2048
    )


def public(id: str, key: Any) -> dict[str, Any]:
    algorithm: Any = (
        jwt.algorithms.RSAAlgorithm
        if isinstance(key, rsa.RSAPrivateKey)
        else jwt.algorithms.ECAlgorithm
    )
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": id, "use": "sig"}


@dataclass
class Issuer:
    """`keys`: those that it publishes, by id; it signs with the last one. `asked` counts requests
    by path."""

    url: str = ""
    keys: dict[str, Any] = field(default_factory=lambda: {"first": key_pair("first")})
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "u1"})
    asked: Counter[str] = field(default_factory=Counter)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: dict[str, Any] = field(default_factory=dict)  # metadata, claims, refuse
    secret: str | None = SECRET

    def token(
        self, audience: Any, *, key: Any = None, id: str | None = None, alg: str = "", **claims: Any
    ) -> str:
        """A signed token. A claim that is None is left out."""
        now, last = int(time.time()), next(reversed(self.keys))
        pair = key or self.keys[last]
        said = {
            "iss": self.url,
            "sub": "u1",
            "aud": audience,
            "iat": now,
            "exp": now + 300,
            **claims,
        }
        body = {name: value for name, value in said.items() if value is not None}
        algorithm = alg or ("RS256" if isinstance(pair, rsa.RSAPrivateKey) else "ES256")
        return jwt.encode(body, pair, algorithm, headers={"kid": last if id is None else id})

    def metadata(self) -> dict[str, Any]:
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
        }
        return {**found, **self.broken.get("metadata", {})}

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser goes back to."""
        assert (asked["response_type"], asked["client_id"], asked["code_challenge_method"]) == (
            "code",
            CLIENT,
            "S256",
        )
        if "refuse" in self.broken:
            back = {"error": self.broken["refuse"], "state": asked["state"]}
        else:
            code = secrets.token_urlsafe(16)
            self.codes[code] = asked
            back = {"code": code, "state": asked["state"], "iss": self.url}
        return f"{asked['redirect_uri']}?{urlencode(back)}"

    def redeem(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """RFC 6749, sections 4.1.3 and 5.2, and RFC 7636, section 4.6."""
        if not self._is_client(form, authorization):
            return 401, {"error": "invalid_client"}
        asked = self.codes.pop(form.get("code", ""), None)
        verifier = (
            urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest())
            .rstrip(b"=")
            .decode()
        )
        if (
            asked is None
            or asked["code_challenge"] != verifier
            or asked["redirect_uri"] != form.get("redirect_uri")
        ):
            return 400, {"error": "invalid_grant"}
        claims = {"nonce": asked["nonce"], **self.person, **self.broken.get("claims", {})}
        audience = claims.pop("aud", CLIENT)
        return 200, {
            "id_token": self.token(audience, **claims),
            "access_token": "x",
            "token_type": "Bearer",
        }

    def _is_client(self, form: dict[str, str], authorization: str) -> bool:
        if self.secret is None:
            return (
                not authorization
                and "client_secret" not in form
                and form.get("client_id") == CLIENT
            )
        if "client_secret" in form:
            return (form.get("client_id"), form["client_secret"]) == (CLIENT, self.secret)
        name, _, secret = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        return (unquote(name), unquote(secret)) == (CLIENT, self.secret)


@contextmanager
def issuing() -> Iterator[Issuer]:
    """A running issuer."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = urlsplit(self.path)
            issuer.asked[found.path] += 1
            match found.path:
                case "/.well-known/openid-configuration":
                    self._answer(200, issuer.metadata())
                case "/keys":
                    self._answer(
                        200, {"keys": [public(id, key) for id, key in issuer.keys.items()]}
                    )
                case "/authorize":
                    self.send_response(302)
                    self.send_header("Location", issuer.authorize(dict(_pairs(found.query))))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                case "/actions":  # as GitHub gives a job its token
                    is_right = self.headers["Authorization"] == "Bearer of the runner"
                    audience = dict(_pairs(found.query))["audience"]
                    self._answer(
                        200 if is_right else 401, {"value": issuer.token(audience, **issuer.person)}
                    )
                case _:
                    self._answer(404, {})

        def do_POST(self) -> None:
            issuer.asked[self.path] += 1
            form = dict(_pairs(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self._answer(*issuer.redeem(form, self.headers.get("Authorization", "")))

        def _answer(self, status: int, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Tests are quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    return ((name, values[0]) for name, values in parse_qs(text).items())

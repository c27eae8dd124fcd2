"""Identity tokens that somebody made up, and keys that change."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from controlplane.core.errors import BadIdentity, IssuerUnreachable
from controlplane.core.model.json_values import JsonObject
from controlplane.issuers import issuer_keys
from controlplane.issuers.identity_tokens import JwtIssuers
from controlplane.issuers.issuer_keys import Publications
from tests.issuer import Issuer, issuing, key_pair, public

pytestmark = pytest.mark.hostile
US = "https://headgate.example.com"


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def running() -> Iterator[Issuer]:
    with issuing() as found:
        yield found


@pytest.fixture
def issuer(running: Issuer) -> Issuer:
    running.keys = {"first": key_pair("first")}
    running.asked.clear()
    running.broken.clear()
    return running


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def issuers(clock: Clock) -> JwtIssuers:
    return JwtIssuers(Publications(clock=clock))


def part(value: dict[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def unsigned(issuer: Issuer, alg: str) -> str:
    now = int(time.time())
    claims = {"iss": issuer.url, "sub": "u1", "aud": US, "iat": now, "exp": now + 300}
    return f"{part({'alg': alg, 'typ': 'JWT', 'kid': 'first'})}.{part(claims)}."


def confused(issuer: Issuer) -> str:
    """HS256, with the text of the public key as its secret."""
    import hmac
    from hashlib import sha256

    public = (
        issuer.keys["first"]
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    signed = unsigned(issuer, "HS256").rstrip(".")
    return f"{signed}.{urlsafe_b64encode(hmac.digest(public, signed.encode(), sha256)).rstrip(b'=').decode()}"


def tampered(issuer: Issuer) -> str:
    head, _, signature = issuer.token(US).split(".")
    return f"{head}.{part({'iss': issuer.url, 'sub': 'root', 'aud': US, 'exp': 9e9, 'iat': 1})}.{signature}"


def own_key(issuer: Issuer) -> str:
    """Signed with a key that the token brings along."""
    mine = key_pair("mine")
    said = jwt.decode(issuer.token(US), options={"verify_signature": False})
    headers = {"kid": "first", "jwk": public("first", mine), "jku": f"{issuer.url}/mine"}
    return jwt.encode(said, mine, "RS256", headers=headers)


FORGED: dict[str, Callable[[Issuer], str]] = {
    "no JWT": lambda _: "hg_" + "a" * 43,
    "empty": lambda _: "..",
    "another issuer": lambda i: i.token(US, iss="https://evil.example.com"),
    "an issuer that begins like ours": lambda i: i.token(US, iss=f"{i.url}.evil.example.com"),
    "another audience": lambda i: i.token("https://other.example.com"),
    "an audience that begins like ours": lambda i: i.token(US + ".evil.example.com"),
    "no audience": lambda i: i.token(None),
    "expired": lambda i: i.token(US, iat=int(time.time()) - 600, exp=int(time.time()) - 60),
    "without an end": lambda i: i.token(US, exp=None),
    "an end that is no number": lambda i: i.token(US, exp="tomorrow"),
    "an end that is a number in a text": lambda i: i.token(US, exp=str(int(time.time()) + 300)),
    "a beginning that is a number in a text": lambda i: i.token(US, iat=str(int(time.time()))),
    "a beginning that is a truth value": lambda i: i.token(US, nbf=True),
    "an end beyond all numbers": lambda i: i.token(US, exp=float("inf")),
    "times that are lists": lambda i: i.token(US, nbf=[1]),
    "not yet": lambda i: i.token(US, nbf=int(time.time()) + 600),
    "from the future": lambda i: i.token(US, iat=int(time.time()) + 600),
    "without a subject": lambda i: i.token(US, sub=None),
    "a subject that is no text": lambda i: i.token(US, sub=["u1"]),
    "alg none": lambda i: unsigned(i, "none"),
    "alg nOnE": lambda i: unsigned(i, "nOnE"),
    "RS256 without a signature": lambda i: unsigned(i, "RS256"),
    "the public key as a shared secret": confused,
    "another key": lambda i: i.token(US, key=key_pair("mine")),
    "a key of its own": own_key,
    "another kind of key": lambda i: i.token(US, key=key_pair("curve", "EC")),
    "other claims": tampered,
    "an unknown key id": lambda i: i.token(US, id="unknown"),
    "too long": lambda i: i.token(US, padding="x" * 20_000),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_token_that_is_not_right_is_refused(
    name: str, issuer: Issuer, issuers: JwtIssuers
) -> None:
    assert issuers.claims(issuer.token(US), issuer.url, [US])["sub"] == "u1"
    with pytest.raises(BadIdentity):
        issuers.claims(FORGED[name](issuer), issuer.url, [US])
    assert issuer.asked["/mine"] == 0


def test_a_shared_secret_among_the_keys_signs_nothing(issuer: Issuer, issuers: JwtIssuers) -> None:
    secret: JsonObject = {
        "kty": "oct",
        "kid": "first",
        "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0",
    }
    issuers.publications.fetch = lambda url: (
        issuer.metadata() if "well-known" in url else {"keys": [secret]}
    )
    for token in (confused(issuer), issuer.token(US)):
        with pytest.raises(BadIdentity):
            issuers.claims(token, issuer.url, [US])


def test_a_weak_key_signs_nothing(issuer: Issuer, issuers: JwtIssuers) -> None:
    issuer.keys = {"weak": key_pair("weak", "weak")}
    with pytest.warns(jwt.InsecureKeyLengthWarning):
        token = issuer.token(US)
    with pytest.raises(BadIdentity, match="below"):
        issuers.claims(token, issuer.url, [US])


def test_curves_sign_too_and_a_key_without_an_id_is_found_where_it_is_the_only_one(
    issuer: Issuer, issuers: JwtIssuers, clock: Clock
) -> None:
    issuer.keys = {"curve": key_pair("curve", "EC")}
    assert issuers.claims(issuer.token(US), issuer.url, [US, "other"])["aud"] == US
    nameless = jwt.encode(
        issuers.claims(issuer.token(US), issuer.url, [US]), key_pair("curve", "EC"), "ES256"
    )
    assert issuers.claims(nameless, issuer.url, [US])["sub"] == "u1"
    issuer.keys["another"] = key_pair("another", "EC")
    clock.now += issuer_keys.KEPT_S
    with pytest.raises(BadIdentity):
        issuers.claims(nameless, issuer.url, [US])


def test_a_new_key_is_fetched_once_and_made_up_ids_have_nothing_fetched(
    issuer: Issuer, issuers: JwtIssuers, clock: Clock
) -> None:
    issuers.claims(issuer.token(US), issuer.url, [US])
    issuer.keys["second"] = key_pair("second")
    clock.now += issuer_keys.AGAIN_S
    issuers.claims(issuer.token(US), issuer.url, [US])
    assert issuer.asked["/keys"] == 2
    for number in range(20):
        with pytest.raises(BadIdentity):
            issuers.claims(issuer.token(US, id=f"made up {number}"), issuer.url, [US])
    assert issuer.asked["/keys"] == 2
    clock.now += issuer_keys.AGAIN_S
    with pytest.raises(BadIdentity):
        issuers.claims(issuer.token(US, id="made up"), issuer.url, [US])
    assert issuer.asked["/keys"] == 3


def test_a_key_that_was_taken_back_opens_nothing_after_ten_minutes(
    issuer: Issuer, issuers: JwtIssuers, clock: Clock
) -> None:
    old = issuer.token(US)
    issuers.claims(old, issuer.url, [US])
    issuer.keys = {"second": key_pair("second")}
    clock.now += issuer_keys.KEPT_S
    with pytest.raises(BadIdentity):
        issuers.claims(old, issuer.url, [US])


@pytest.mark.parametrize(
    "metadata",
    [
        {"issuer": "https://evil.example.com"},
        {"jwks_uri": None},
        {"jwks_uri": "http://169.254.169.254/latest"},
        {"jwks_uri": "file:///etc/passwd"},
    ],
)
def test_an_issuer_that_sends_us_elsewhere_is_not_followed(
    metadata: dict[str, Any], issuer: Issuer, issuers: JwtIssuers
) -> None:
    issuer.broken["metadata"] = metadata
    with pytest.raises(IssuerUnreachable):
        issuers.claims(issuer.token(US), issuer.url, [US])


def test_an_issuer_that_does_not_answer_is_told_and_asked_again_later(
    issuer: Issuer, clock: Clock
) -> None:
    asked: list[str] = []

    def fetch(url: str) -> Any:
        asked.append(url)
        raise IssuerUnreachable("it is away")

    issuers = JwtIssuers(Publications(fetch, clock))
    for _ in range(3):
        with pytest.raises(IssuerUnreachable, match="it is away"):
            issuers.claims(issuer.token(US), issuer.url, [US])
    assert len(asked) == 1
    clock.now += issuer_keys.FAILED_S
    with pytest.raises(IssuerUnreachable):
        issuers.claims(issuer.token(US), issuer.url, [US])
    assert len(asked) == 2


def test_nobody_listens_there(issuers: JwtIssuers) -> None:
    with pytest.raises(IssuerUnreachable, match="cannot be reached"):
        issuers.claims(Issuer("http://127.0.0.1:9").token(US), "http://127.0.0.1:9", [US])

"""Signatures are those that botocore and obstore make, and nothing but what was signed is
accepted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore import sign
from obstore.store import S3Store

from controlplane.services.s3.http import sigv4
from controlplane.services.s3.http.s3_refusals import S3Refused
from controlplane.services.s3.http.sigv4 import SignedRequest

SIGNED = json.loads(Path(__file__).with_name("signed_by_botocore.json").read_text(encoding="utf-8"))
NOBODY: dict[str, str] = {}
KEY, SECRET = SIGNED["access_key"], SIGNED["secret_key"]
REQUESTS = [SignedRequest(**request) for request in SIGNED["requests"]]
IN_HEADER, PRESIGNED = REQUESTS[0], REQUESTS[1]


def _at(request: SignedRequest) -> float:
    """When it was signed."""
    query = dict(part.partition("=")[::2] for part in request.query.split("&"))
    date = request.headers.get("x-amz-date") or query["X-Amz-Date"]
    return datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _verify(request: SignedRequest, later_s: float = 1, secret: str = SECRET) -> str:
    return sigv4.verify(request, {KEY: secret}.get, _at(request) + later_s)


def _refusal(request: SignedRequest, **options: Any) -> str:
    with pytest.raises(S3Refused) as refused:
        _verify(request, **options)
    return refused.value.code


def _with_header(request: SignedRequest, name: str, value: str) -> SignedRequest:
    return replace(request, headers={**request.headers, name: value})


def test_what_botocore_signed_is_accepted() -> None:
    assert [_verify(request) for request in REQUESTS] == [KEY] * len(REQUESTS)


@pytest.mark.parametrize(
    "forged",
    [
        lambda r: replace(r, method="PUT"),
        lambda r: replace(r, path=r.path + "x"),
        lambda r: replace(r, query=f"{r.query}&z=1".strip("&")),
        lambda r: _with_header(r, "host", "evil.example.com"),
        lambda r: _with_header(r, "range", "bytes=0-9"),
    ],
)
def test_what_was_not_signed_is_refused(forged: Callable[[SignedRequest], SignedRequest]) -> None:
    assert {_refusal(forged(request)) for request in REQUESTS} == {"SignatureDoesNotMatch"}


def _changed(text: str, at: int, *, is_inserted: bool) -> str:
    """Another text, which is also another one when it is decoded: `x` and `y` are no digits of an
    escape."""
    place = at % (len(text) + 1)
    if is_inserted or place == len(text):
        return f"{text[:place]}x{text[place:]}"
    return f"{text[:place]}{'y' if text[place] == 'x' else 'x'}{text[place + 1 :]}"


@pytest.mark.property
@given(
    st.sampled_from(REQUESTS),
    st.sampled_from(["method", "path", "query", "value", "missing", "added"]),
    st.integers(0, 999),
    st.booleans(),
)
def test_a_character_that_changes_anywhere_is_refused(
    request_: SignedRequest, part: str, at: int, is_inserted: bool
) -> None:
    """Each header of these requests is signed, or is the signature. `make soak` makes 20,000
    forgeries."""
    name = sorted(request_.headers)[at % len(request_.headers)]
    if part in ("method", "path", "query"):
        changed: dict[str, Any] = {
            part: _changed(getattr(request_, part), at, is_inserted=is_inserted)
        }
        forged = replace(request_, **changed)
    elif part == "value":
        forged = _with_header(
            request_, name, _changed(request_.headers[name], at, is_inserted=is_inserted)
        )
    elif part == "missing":
        forged = replace(
            request_, headers={other: v for other, v in request_.headers.items() if other != name}
        )
    else:
        forged = _with_header(request_, f"x-amz-{at}", "x")
    with pytest.raises(S3Refused):
        sigv4.verify(forged, {KEY: SECRET}.get, _at(request_) + 1)


def test_another_secret_and_another_key_look_alike() -> None:
    assert _refusal(IN_HEADER, secret="other") == "SignatureDoesNotMatch"
    with pytest.raises(S3Refused) as refused:
        sigv4.verify(IN_HEADER, NOBODY.get, _at(IN_HEADER))
    assert refused.value.code == "SignatureDoesNotMatch"


def test_an_unknown_key_cannot_be_signed_for_with_an_empty_secret() -> None:
    path, at = _presigned("a", secret="")
    with pytest.raises(S3Refused):
        sigv4.verify(path, NOBODY.get, at)


def test_a_proxy_may_encode_the_path_otherwise() -> None:
    """As long as it means the same: it leaves characters as they are that clients escape."""
    for request in REQUESTS:
        assert (
            _verify(replace(request, path=quote(unquote(request.path), safe="/!*'(),;$&=+@:")))
            == KEY
        )


def test_a_plus_in_a_query_is_no_space() -> None:
    spaced = next(r for r in REQUESTS if "%20" in r.query)
    assert (
        _refusal(replace(spaced, query=spaced.query.replace("%20", "+"))) == "SignatureDoesNotMatch"
    )


@pytest.mark.parametrize(
    ("request_", "later_s", "code"),
    [
        (IN_HEADER, 901, "RequestTimeTooSkewed"),
        (IN_HEADER, -901, "RequestTimeTooSkewed"),
        (PRESIGNED, 61, "AccessDenied"),
        (PRESIGNED, -901, "RequestTimeTooSkewed"),
    ],
)
def test_times_too_far_apart_are_refused(
    request_: SignedRequest, later_s: float, code: str
) -> None:
    assert _refusal(request_, later_s=later_s) == code


def test_the_skew_of_clocks_is_no_longer_life_of_a_url() -> None:
    assert _verify(PRESIGNED, later_s=60) == KEY
    assert _verify(IN_HEADER, later_s=900) == KEY


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (_with_header(IN_HEADER, "x-amz-meta-a", "1"), "AccessDenied"),
        (_with_header(PRESIGNED, "x-amz-meta-a", "1"), "AccessDenied"),
        (
            _with_header(PRESIGNED, "authorization", IN_HEADER.headers["authorization"]),
            "InvalidArgument",
        ),
        (_with_header(IN_HEADER, "authorization", "AWS a:b"), "AuthorizationHeaderMalformed"),
        (replace(IN_HEADER, headers={"host": "a"}, query=""), "AccessDenied"),
        (
            replace(PRESIGNED, query=f"{PRESIGNED.query}&X-Amz-Expires=1"),
            "AuthorizationQueryParametersError",
        ),
        (
            replace(PRESIGNED, query=PRESIGNED.query.replace("Expires=60", "Expires=604801")),
            "AuthorizationQueryParametersError",
        ),
        (
            replace(PRESIGNED, query=PRESIGNED.query.replace("host%3Brange", "range")),
            "AccessDenied",
        ),
    ],
)
def test_each_flaw_has_its_code(request_: SignedRequest, code: str) -> None:
    with pytest.raises(S3Refused) as refused:
        sigv4.verify(request_, {KEY: SECRET}.get, _at(PRESIGNED))
    assert refused.value.code == code


def _presigned(path: str, secret: str = SECRET) -> tuple[SignedRequest, float]:
    store = S3Store(
        "default",
        endpoint="http://127.0.0.1:9",
        access_key_id=KEY,
        secret_access_key=secret,
        region="eu-west-1",
        client_options={"allow_http": True},
    )
    url = urlsplit(sign(store, "GET", path, timedelta(seconds=60)))
    request = SignedRequest("GET", url.path, url.query, {"host": "127.0.0.1:9"})
    return request, _at(request)


@given(st.text(st.sampled_from("ab.=!@~%+ üß漢😀&?#'()"), min_size=1, max_size=8))
def test_what_obstore_presigned_is_accepted(name: str) -> None:
    request, at = _presigned(f"main/a/{name}x")
    assert sigv4.verify(request, {KEY: SECRET}.get, at) == KEY


TEXT = st.text(st.characters(max_codepoint=255), max_size=20)


@given(
    TEXT,
    TEXT,
    st.dictionaries(st.sampled_from(["host", "authorization", "x-amz-date", "x-amz-a"]), TEXT),
    TEXT,
)
def test_whatever_comes_is_refused_in_words(
    path: str, query: str, headers: dict[str, str], value: str
) -> None:
    of_header = (
        "AWS4-HMAC-SHA256 Credential=a/20261125/r/s3/aws4_request, SignedHeaders=host, Signature="
        + "0" * 64
    )
    for given_query, given_headers in [
        (query, headers),
        (
            f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=9&X-Amz-Signature={value}&{query}",
            headers,
        ),
        (
            query,
            {
                "x-amz-date": "20261125T000000Z",
                "x-amz-content-sha256": value,
                "authorization": of_header,
            }
            | headers,
        ),
    ]:
        with pytest.raises(S3Refused):
            sigv4.verify(SignedRequest("GET", path, given_query, given_headers), NOBODY.get, 0)

"""Signatures of requests, version 4, as S3 has them: in the header Authorization, and in presigned
URLs.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html

The client signs the URL as it encoded it, and a proxy may encode it otherwise: so path and query
are decoded and encoded again in the one way that S3 has. A `+` in a query is no space. The region
is the client's choice: it is signed, and says nothing.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import NoReturn, TypeAlias
from urllib.parse import quote, unquote_to_bytes

from controlplane.services.s3.http.s3_refusals import S3Refused

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW_S = 900  # between the clocks of client and server
MOST_EXPIRES_S = 7 * 86400  # of a presigned URL
UNSIGNED = "UNSIGNED-PAYLOAD"
_SIGNATURE = "X-Amz-Signature"
_HEADER = re.compile(
    ALGORITHM + r"\s+Credential=(?P<credential>[^,\s]+),\s*SignedHeaders=(?P<headers>[^,\s]+),"
    r"\s*Signature=(?P<signature>[0-9a-f]{64})"
)
_DATE = re.compile(r"\d{8}T\d{6}Z", re.ASCII)
_PARTS = ((0, 4), (4, 6), (6, 8), (9, 11), (11, 13), (13, 15))  # of a date
_EXPIRES = re.compile(r"[1-9][0-9]{0,5}")

Pairs: TypeAlias = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """Path and query as they came, encoded; all texts are bytes read as Latin 1. Names of headers
    are in lower case; repeated headers are joined by commas."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _SignatureClaim:
    """The parts of a request's own signature."""

    credential: str
    headers: str
    signature: str
    date: str
    payload: str
    pairs: Pairs  # of the query, without the signature
    expires_s: int | None  # None: of a request that is signed in its header


def verify(request: SignedRequest, secret_of: Callable[[str], str | None], now: float) -> str:
    """The access key that signed this request. `secret_of` gives the secret key of a live access
    key. `now`: seconds since 1970. Raises S3Refused."""
    claim = _claim(request)
    access_key, *scope = _scope(claim)
    _check_headers(request, claim)
    _check_time(claim, now)
    # An access key that is not known takes the same time, and the same answer, as a wrong secret.
    secret = secret_of(access_key)
    expected = _signature(request, claim, scope, secret or "")
    is_equal = hmac.compare_digest(expected.encode(), claim.signature.encode("latin-1"))
    if secret is None or not is_equal:
        message = "the secret key is another one, or the access key is not known, has expired or was revoked"
        raise S3Refused("SignatureDoesNotMatch", 403, message)
    return access_key


def sign(request: SignedRequest, secret: str) -> str:
    """The signature that the query of this request lacks. `secret`: of the access key that it
    names."""
    claim = _in_query(pairs_of(request.query))
    _, *scope = _scope(claim)
    return _signature(request, claim, scope, secret)


def pairs_of(query: str) -> Pairs:
    """Names and values, decoded."""
    split = (part.partition("=") for part in query.split("&") if part)
    return [(decoded(name), decoded(value)) for name, _, value in split]


def _claim(request: SignedRequest) -> _SignatureClaim:
    pairs = pairs_of(request.query)
    header = request.headers.get("authorization")
    is_presigned = any(name == b"X-Amz-Algorithm" for name, _ in pairs)
    if header is not None and is_presigned:
        raise S3Refused(
            "InvalidArgument", 400, "the request is signed twice: in a header, and in its query"
        )
    if header is not None:
        return _in_header(request, header, pairs)
    if is_presigned:
        return _in_query(pairs)
    raise S3Refused(
        "AccessDenied", 403, "the request is not signed; AWS Signature Version 4 is what is read"
    )


def _in_header(request: SignedRequest, header: str, pairs: Pairs) -> _SignatureClaim:
    match = _HEADER.fullmatch(header.strip())
    date, payload = (
        request.headers.get("x-amz-date", ""),
        request.headers.get("x-amz-content-sha256"),
    )
    if match is None:
        _malformed(
            f"Authorization is not {ALGORITHM} Credential=..., SignedHeaders=..., Signature=..."
        )
    if payload is None:
        raise S3Refused("InvalidRequest", 400, "the header x-amz-content-sha256 is missing")
    return _SignatureClaim(
        match["credential"],
        match["headers"],
        match["signature"],
        date=date,
        payload=payload,
        pairs=pairs,
        expires_s=None,
    )


def _in_query(pairs: Pairs) -> _SignatureClaim:
    signing = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in pairs
        if name[:6] == b"X-Amz-"
    ]
    parameters = dict(signing)
    expires = parameters.get("X-Amz-Expires", "")
    if len(parameters) < len(signing):
        _malformed(
            "a parameter of the signature is given twice", "AuthorizationQueryParametersError"
        )
    if parameters["X-Amz-Algorithm"] != ALGORITHM:
        _malformed(f"X-Amz-Algorithm must be {ALGORITHM}", "AuthorizationQueryParametersError")
    if not _EXPIRES.fullmatch(expires) or int(expires) > MOST_EXPIRES_S:
        _malformed(
            f"X-Amz-Expires must be 1 to {MOST_EXPIRES_S} seconds",
            "AuthorizationQueryParametersError",
        )
    return _SignatureClaim(
        parameters.get("X-Amz-Credential", ""),
        parameters.get("X-Amz-SignedHeaders", ""),
        parameters.get(_SIGNATURE, ""),
        date=parameters.get("X-Amz-Date", ""),
        payload=parameters.get("X-Amz-Content-Sha256", UNSIGNED),
        pairs=[pair for pair in pairs if pair[0] != _SIGNATURE.encode()],
        expires_s=int(expires),
    )


def _scope(claim: _SignatureClaim) -> list[str]:
    """Access key, day, region, service and the terminator."""
    parts = claim.credential.split("/")
    if len(parts) != 5 or not _DATE.fullmatch(claim.date):
        _malformed(
            "Credential must be <access key>/<yyyymmdd>/<region>/s3/aws4_request, with x-amz-date"
        )
    if parts[1] != claim.date[:8] or parts[3:] != ["s3", "aws4_request"]:
        _malformed("Credential must end with /s3/aws4_request, and have the day of x-amz-date")
    return parts


def _check_headers(request: SignedRequest, claim: _SignatureClaim) -> None:
    """Reject unsigned security headers: a proxy could have added them."""
    signed = claim.headers.split(";")
    missing = [name for name in request.headers if name.startswith("x-amz-") and name not in signed]
    if "host" not in signed or missing:
        raise S3Refused(
            "AccessDenied", 403, f"these headers must be signed: {', '.join(missing or ['host'])}"
        )
    if any(name not in request.headers for name in signed):
        raise S3Refused("AccessDenied", 403, "a header that is signed is not there")


def _check_time(claim: _SignatureClaim, now: float) -> None:
    try:
        at = _time(claim.date)
    except ValueError:
        _malformed("x-amz-date is no time")
    if at > now + SKEW_S or (claim.expires_s is None and at < now - SKEW_S):
        raise S3Refused(
            "RequestTimeTooSkewed",
            403,
            "the clocks of client and server are too far apart: correct one",
        )
    if claim.expires_s is not None and now > at + claim.expires_s:
        raise S3Refused("AccessDenied", 403, "the URL has expired")


def _time(date: str) -> float:
    """Seconds since 1970 of yyyymmddThhmmssZ. `strptime` would take a third of a verification.
    Raises ValueError."""
    year, month, day, hour, minute, second = (int(date[start:end]) for start, end in _PARTS)
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()


def _signature(
    request: SignedRequest, claim: _SignatureClaim, scope: Sequence[str], secret: str
) -> str:
    canonical = _canonical(request, claim)
    text = "\n".join(
        [ALGORITHM, claim.date, "/".join(scope), sha256(canonical.encode("latin-1")).hexdigest()]
    )
    key = f"AWS4{secret}".encode()
    for part in scope:
        key = _hmac(key, part)
    return _hmac(key, text).hex()


def _canonical(request: SignedRequest, claim: _SignatureClaim) -> str:
    query = sorted((encoded(name), encoded(value)) for name, value in claim.pairs)
    names = claim.headers.split(";")
    return "\n".join(
        [
            request.method,
            encoded(decoded(request.path), "/"),
            "&".join(f"{name}={value}" for name, value in query),
            *(f"{name}:{' '.join(request.headers[name].split())}" for name in names),
            "",
            claim.headers,
            claim.payload,
        ]
    )


def decoded(text: str) -> bytes:
    """Without escapes."""
    return unquote_to_bytes(text.encode("latin-1"))


def encoded(text: bytes, plain: str = "") -> str:
    """In the one way that signatures know. `plain`: what stays as it is beside that."""
    return quote(text, safe=f"-_.~{plain}")


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode("latin-1"), "sha256")


def _malformed(message: str, code: str = "AuthorizationHeaderMalformed") -> NoReturn:
    raise S3Refused(code, 400, message)

"""Messages to web services, signed so that a receiver can tell who sent them, and when.

The signature is HMAC-SHA256 over the time, a dot and the body. A receiver compares it, and refuses times that are more
than some minutes away: so nobody can send an old message again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

import httpx2

from dataplane.errors import TaskFailure

ANSWER_S = 15.0
TOLD = 200  # characters of an answer


def signed(body: bytes, secret: str, at: int) -> dict[str, str]:
    """Headers that tell the time and the signature."""
    text = str(at).encode() + b"." + body
    found = hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
    return {"Headgate-Timestamp": str(at), "Headgate-Signature": f"v1={found}"}


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """TaskFailure unless the service answers 2xx. No redirect is followed."""
    sent = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "headgate", **headers}
    try:
        answer = httpx2.post(url, content=body, headers=sent, timeout=ANSWER_S, follow_redirects=False)
    except (httpx2.HTTPError, httpx2.InvalidURL) as e:
        raise TaskFailure("notify-unreachable", f"the service does not answer: {type(e).__name__}: {e}") from e
    if not 200 <= answer.status_code < 300:
        raise TaskFailure("notify-refused", f"the service answered {answer.status_code}: {answer.text[:TOLD]}")

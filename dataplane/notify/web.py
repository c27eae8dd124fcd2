"""Messages to web services, signed so that a receiver can verify who sent them, and when.

The signature is HMAC-SHA256 over the time, a dot and the body. A receiver compares it, and refuses
times that are more than some minutes away: so an old message cannot be sent again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

import httpx2

from dataplane.contract.hosts import REFUSED
from dataplane.storage.service_hosts import leads_to_link_local
from dataplane.task_failures import TaskFailure

ANSWER_S = 15.0
ANSWER_CHARACTERS = 200  # characters of an answer


def check_host(host: str) -> None:
    """TaskFailure where an address that the name has is link-local."""
    if leads_to_link_local(host):
        raise TaskFailure("notify-refused", f"{host} {REFUSED}")


def _host(url: str) -> str:
    """As the client opens it."""
    try:
        return httpx2.URL(url).raw_host.decode()
    except httpx2.InvalidURL:
        return ""


def signed(body: bytes, secret: str, at: int) -> dict[str, str]:
    """Headers with the time and the signature."""
    text = str(at).encode() + b"." + body
    signature = hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
    return {"Headgate-Timestamp": str(at), "Headgate-Signature": f"v1={signature}"}


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """TaskFailure unless the service answers 2xx, or where its name leads to a link-local address.
    No redirect is followed."""
    check_host(_host(url))
    sent = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "headgate", **headers}
    try:
        answer = httpx2.post(
            url, content=body, headers=sent, timeout=ANSWER_S, follow_redirects=False
        )
    except (httpx2.HTTPError, httpx2.InvalidURL) as e:
        raise TaskFailure(
            "notify-unreachable", f"the service does not answer: {type(e).__name__}: {e}"
        ) from e
    if not 200 <= answer.status_code < 300:
        raise TaskFailure(
            "notify-refused",
            f"the service answered {answer.status_code}: {answer.text[:ANSWER_CHARACTERS]}",
        )

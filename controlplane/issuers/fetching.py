"""JSON of an issuer over HTTP, bounded in time and size."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from controlplane.core.errors import IssuerUnreachable
from controlplane.core.model.json_values import JsonObject
from controlplane.core.trust_rules import is_address

if TYPE_CHECKING:
    import httpx2

TIMEOUT_S = 5.0
WHOLE_S = 10.0  # of an answer that comes in drops
MOST_BYTES = 1_000_000


def get(url: str) -> JsonObject:
    """Raises IssuerUnreachable for anything but an object with status 200."""
    status, body = _exchange("GET", url)
    if status != 200:
        raise IssuerUnreachable(f"{url} answers with status {status}")
    return body


def post(url: str, form: Mapping[str, str], auth: tuple[str, str] | None) -> tuple[int, JsonObject]:
    """The answer to a form, with any status. `auth`: name and password. Raises
    IssuerUnreachable."""
    return _exchange("POST", url, form, auth)


def _exchange(
    method: str,
    url: str,
    form: Mapping[str, str] | None = None,
    auth: tuple[str, str] | None = None,
) -> tuple[int, JsonObject]:
    if not is_address(url):
        raise IssuerUnreachable(f"{url[:200]!r}, an address of the issuer's, is not https")
    import httpx2

    is_local = urlsplit(url).scheme == "http"  # which only this machine may use
    headers, began = {"Accept": "application/json"}, time.monotonic()
    try:
        with _client(is_local).stream(method, url, data=form, auth=auth, headers=headers) as answer:
            body = b""
            for part in answer.iter_bytes():
                body += part
                if len(body) > MOST_BYTES or time.monotonic() - began > WHOLE_S:
                    raise IssuerUnreachable(f"{url} sends more than an issuer would, or too slowly")
    except (httpx2.HTTPError, httpx2.InvalidURL) as e:
        raise IssuerUnreachable(f"{url} cannot be reached: {type(e).__name__}: {e}") from e
    return answer.status_code, _object(url, body)


@cache
def _client(is_local: bool) -> httpx2.Client:
    """Kept: reading the certificates that are trusted takes a tenth of a second. It follows no
    redirects."""
    import httpx2

    return httpx2.Client(timeout=TIMEOUT_S, trust_env=not is_local, follow_redirects=False)


def _object(url: str, body: bytes) -> JsonObject:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise IssuerUnreachable(f"{url} answers with something else than a JSON object")
    return cast("JsonObject", document)

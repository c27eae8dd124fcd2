"""Who a browser's request is from, and whether the browser's user meant it.

A cookie names a session. Every request that is more than a look needs two proofs beside it: that a
page of our own sent it (by headers that scripts cannot set), and a text that only pages of this
session know. The Host has to be one of ours for a cookie to count, so that a foreign name that
resolves to our address opens nothing.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser

from controlplane.core.errors import HeadgateError
from controlplane.core.model.access import Token
from controlplane.operations.desired import browser_sessions
from controlplane.ports.store import Store

COOKIE = "hg"  # over plain HTTP, which only loopback may use
SECURE_COOKIE = "__Host-hg"
PROOF_HEADER = "x-csrf"
PROOF_FIELD = "csrf"
READ_METHODS = frozenset({"GET", "HEAD"})
NO_HOST = re.compile(r"[^\w.:\[\]-]")
_TAG = b"headgate/csrf/1\n"


class NotProven(HeadgateError):
    """A browser's request that changes something may come from a foreign page."""

    code = "forbidden"


class WrongHost(HeadgateError):
    """The request names a host that is not ours."""

    code = "forbidden"


def host_of(headers: Headers) -> str:
    """The name that the client calls us by, without a port; empty if it is none, or names a user or
    a path beside."""
    host = headers.get("host", "")
    if NO_HOST.search(host):
        return ""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def require_host(headers: Headers, hosts: Collection[str]) -> None:
    """Raises WrongHost. An address is never bent, loopback's names mean this machine, and `hosts`
    are ours."""
    name = host_of(headers)
    if not (_is_address(name) or _is_local_name(name) or name in hosts):
        raise WrongHost(
            "this name is not one of the service's: the operator adds it to HEADGATE_HOSTS"
        )


def is_loopback(name: str) -> bool:
    return _is_local_name(name) or (_is_address(name) and ip_address(name).is_loopback)


def _is_local_name(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def session_text(headers: Headers, hosts: Collection[str]) -> str | None:
    """The text of the request's cookie, if cookies count for this host."""
    cookies = cookie_parser(headers.get("cookie", ""))
    plain = cookies.get(COOKIE) if is_loopback(host_of(headers)) else None
    cookie = cookies.get(SECURE_COOKIE) or plain
    if cookie:
        require_host(headers, hosts)
    return cookie or None


def session_token(
    store: Store, hosts: Collection[str], method: str, headers: Headers, proof: str | None = None
) -> Token | None:
    """The token of the session that a request's cookie names; None without one. `given`: the proof
    that a form brought, where it is not in a header. Raises NotProven, WrongHost."""
    text = session_text(headers, hosts)
    if text is None:
        return None
    if method not in READ_METHODS:
        require_proof(headers, text, headers.get(PROOF_HEADER, "") if proof is None else proof)
    return browser_sessions.authenticate(store, text)


def proof_of(text: str) -> str:
    """The text that pages of a session send with every change. It reveals nothing of the session's
    own text."""
    return sha256(_TAG + text.encode("utf-8", "replace")).hexdigest()


def require_proof(headers: Headers, text: str, proof: str) -> None:
    """Raises NotProven."""
    require_same_origin(headers)
    if not hmac.compare_digest(proof_of(text).encode(), proof.encode("utf-8", "replace")):
        raise NotProven(
            "this page is older than the session: load it again, and repeat what you did"
        )


def require_same_origin(headers: Headers) -> None:
    """Check the browser's own headers: the site that the request comes from, or else its origin.
    Raises NotProven."""
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin", "")
    is_ours = (
        site == "same-origin" if site is not None else _is_own(origin, headers.get("host", ""))
    )
    if not is_ours:
        raise NotProven(
            "this came from a page of another site, or from a program without a Bearer token"
        )


def _is_own(origin: str, host: str) -> bool:
    """Whether an origin is this host. The scheme is ignored, as a proxy may have changed it."""
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False

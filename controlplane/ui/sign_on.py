"""Signing in at an issuer (OpenID Connect): there and back, and a session like any other.

The browser keeps one random text in a cookie in between. State, nonce and PKCE verifier follow from it, so nothing is
stored for who does not come back, and nobody who has sent a browser here knows them. Does not belong here: what the
issuer is asked (`ports.issuers`), and who gets in (`operations.desired.trust`).
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from hashlib import sha256
from urllib.parse import quote, unquote

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from controlplane import logs
from controlplane.core.errors import HeadgateError, IssuerUnreachable, NotFound
from controlplane.core.model.json_values import JsonObject
from controlplane.core.redaction import redacted
from controlplane.operations.context import Context
from controlplane.operations.desired import browser_sessions, trust
from controlplane.ports.issuers import SignIn, SignOn
from controlplane.ui import gate, login
from controlplane.ui.asking import PageServices
from controlplane.ui.forms import own_path
from controlplane.ui.rights import sees_pages

COOKIE, SECURE_COOKIE = "hg-signing-in", "__Host-hg-signing-in"
AWAY_S = 600
AT_ONCE = 4  # requests that wait for an issuer
CALLBACK = "/login/callback"
OTHER = "this sign-in is over, or began in another browser: begin again"
NARROWED = "may see no pages: these tell of the whole installation, and the rule narrows the role to some names"
log = logs.get("ui")


def _asked(request: Request) -> tuple[PageServices, SignOn]:
    services: PageServices = request.app.state.services
    gate.require_host(request.headers, services.hosts)
    if services.sign_on is None:
        raise NotFound("nobody signs in by an issuer here: the operator sets HEADGATE_OIDC_ISSUER")
    return services, services.sign_on


def _origin(request: Request) -> str:
    """Where the browser has us. Sessions need TLS, so it is https wherever this is not the machine itself."""
    is_local = gate.is_loopback(gate.host_of(request.headers))
    return f"{request.url.scheme if is_local else 'https'}://{request.headers['host']}"


def _signing(request: Request, secret: str) -> SignIn:
    state, nonce, verifier = (_derived(kind, secret) for kind in ("state", "nonce", "verifier"))
    return SignIn(_origin(request) + CALLBACK, state, nonce, verifier)


def _derived(kind: str, secret: str) -> str:
    found = sha256(f"headgate/sign-in/1\n{kind}\n{secret}".encode("utf-8", "replace")).digest()
    return urlsafe_b64encode(found).rstrip(b"=").decode()


async def start(request: Request) -> Response:
    """To the issuer."""
    _, sign_on = _asked(request)
    onward, secret = own_path(request.query_params.get("next", "/")), secrets.token_urlsafe(32)
    try:
        address = await to_thread.run_sync(sign_on.address, _signing(request, secret), limiter=_limiter(request))
    except IssuerUnreachable as e:
        return _refused(request, onward, e)
    answer = RedirectResponse(address, 303)
    is_plain = _origin(request).startswith("http:")
    answer.set_cookie(
        COOKIE if is_plain else SECURE_COOKIE,
        f"{secret}.{quote(onward, safe='')}",
        max_age=AWAY_S,
        path="/",
        secure=not is_plain,
        httponly=True,
        samesite="lax",
    )
    return answer


async def callback(request: Request) -> Response:
    """Back from the issuer."""
    services, sign_on = _asked(request)
    secret, _, onward = _kept(request).partition(".")
    onward = own_path(unquote(onward) or "/")
    asked = request.query_params
    signing = _signing(request, secret)
    is_ours = hmac.compare_digest(signing.state.encode(), asked.get("state", "").encode("utf-8", "replace"))
    if not secret or not is_ours:
        answer = login.form(request, onward, OTHER, 400)
    elif asked.get("iss", sign_on.issuer) != sign_on.issuer:  # RFC 9207
        answer = login.form(request, onward, "another issuer has sent this answer", 400)
    elif "code" not in asked:
        answer = login.form(request, onward, f"{sign_on.label} says: {redacted(asked.get('error', '')[:100])}", 403)
    else:
        try:
            claims = await to_thread.run_sync(sign_on.claims, signing, asked["code"][:4000], limiter=_limiter(request))
            answer = await to_thread.run_sync(_begun, request, services, signing, claims, onward)
        except HeadgateError as e:
            answer = _refused(request, onward, e)
    answer.delete_cookie(COOKIE, path="/")
    answer.delete_cookie(SECURE_COOKIE, path="/", secure=True)
    return answer


def _kept(request: Request) -> str:
    plain = request.cookies.get(COOKIE, "") if gate.is_loopback(gate.host_of(request.headers)) else ""
    return request.cookies.get(SECURE_COOKIE, "") or plain


def _begun(request: Request, services: PageServices, signing: SignIn, claims: JsonObject, onward: str) -> Response:
    """A session. An answer of the issuer opens one, whoever sends it again."""
    if not browser_sessions.use_up(services.store, signing.state, AWAY_S):
        return login.form(request, onward, OTHER, 400)
    assert services.sign_on is not None
    context = Context(services.store, request_id=str(request.scope.get("headgate.request_id", "")))
    token = trust.login(context, services.sign_on.issuer, claims, lambda one: "" if sees_pages(one) else NARROWED)
    return login.begun(services, token, onward, is_plain=_origin(request).startswith("http:"))


def _refused(request: Request, onward: str, error: HeadgateError) -> Response:
    """With the reason, which is the person's own or the issuer's."""
    status = {"unauthenticated": 401, "forbidden": 403, "unavailable": 503}.get(error.code, 422)
    log.warning("sign-in refused", code=error.code, reason=redacted(str(error)))
    return login.form(request, onward, redacted(str(error)), status)


def _limiter(request: Request) -> CapacityLimiter:
    """Of few threads: a slow issuer keeps nobody waiting but those who sign in there."""
    found: CapacityLimiter = request.app.state.signing_in
    return found


ROUTES = [
    Route("/login/start", start, methods=["GET"]),
    Route(CALLBACK, callback, methods=["GET"]),
]

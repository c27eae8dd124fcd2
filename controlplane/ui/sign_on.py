"""Signing in at an issuer (OpenID Connect): there and back, and a session like any other.

The browser keeps one random text in a cookie in between, with the namespace and where to go on.
State, nonce and PKCE verifier follow from text and namespace, so nothing is stored for a browser
that does not return, and a site that has sent a browser here does not know them. The answer does
not show whether the namespace exists: one without a fitting rule refuses everyone, too.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
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
from controlplane.ui.forms import own_path
from controlplane.ui.page_request import PageServices
from controlplane.ui.session_rights import sees_pages

COOKIE, SECURE_COOKIE = "hg-signing-in", "__Host-hg-signing-in"
AWAY_S = 600
AT_ONCE = 4  # requests that wait for an issuer
CALLBACK = "/login/callback"
OTHER = "this sign-in is over, or began in another browser: begin again"
BLIND = "may see no pages: the role has no permission view"
log = logs.get("ui")


def _services_and_sign_on(request: Request) -> tuple[PageServices, SignOn]:
    services: PageServices = request.app.state.services
    gate.require_host(request.headers, services.hosts)
    if services.sign_on is None:
        raise NotFound("nobody signs in by an issuer here: the operator sets HEADGATE_OIDC_ISSUER")
    return services, services.sign_on


def _origin(request: Request) -> str:
    """Where the browser has us. Sessions need TLS, so it is https wherever this is not the machine
    itself."""
    is_local = gate.is_loopback(gate.host_of(request.headers))
    return f"{request.url.scheme if is_local else 'https'}://{request.headers['host']}"


@dataclass(frozen=True, slots=True)
class SignInAttempt:
    """The values that the browser keeps while it is away."""

    secret: str
    namespace: str
    onward: str

    @property
    def text(self) -> str:
        return f"{self.secret}.{self.namespace}.{quote(self.onward, safe='')}"


def _signing(request: Request, attempt: SignInAttempt) -> SignIn:
    state, nonce, verifier = (_derived(kind, attempt) for kind in ("state", "nonce", "verifier"))
    return SignIn(_origin(request) + CALLBACK, state, nonce, verifier)


def _derived(kind: str, attempt: SignInAttempt) -> str:
    text = f"headgate/sign-in/2\n{kind}\n{attempt.namespace}\n{attempt.secret}"
    sha = sha256(text.encode("utf-8", "replace")).digest()
    return urlsafe_b64encode(sha).rstrip(b"=").decode()


async def start(request: Request) -> Response:
    """To the issuer."""
    _, sign_on = _services_and_sign_on(request)
    onward = own_path(request.query_params.get("next", "/"))
    attempt = SignInAttempt(secrets.token_urlsafe(32), login.namespace_of(request), onward)
    try:
        address = await to_thread.run_sync(
            sign_on.address, _signing(request, attempt), limiter=_limiter(request)
        )
    except IssuerUnreachable as e:
        return await to_thread.run_sync(_refused, request, attempt, e)
    answer = RedirectResponse(address, 303)
    is_plain = _origin(request).startswith("http:")
    answer.set_cookie(
        COOKIE if is_plain else SECURE_COOKIE,
        attempt.text,
        max_age=AWAY_S,
        path="/",
        secure=not is_plain,
        httponly=True,
        samesite="lax",
    )
    return answer


async def callback(request: Request) -> Response:
    """Back from the issuer."""
    services, sign_on = _services_and_sign_on(request)
    attempt = _attempt_of(request)
    parameters = request.query_params
    signing = _signing(request, attempt)

    def refused(fault: str, status: int) -> Response:
        return login.form(request, attempt.onward, fault, status, namespace=attempt.namespace)

    is_ours = hmac.compare_digest(
        signing.state.encode(), parameters.get("state", "").encode("utf-8", "replace")
    )
    if not attempt.secret or not is_ours:
        answer = await to_thread.run_sync(refused, OTHER, 400)
    elif parameters.get("iss", sign_on.issuer) != sign_on.issuer:  # RFC 9207
        answer = await to_thread.run_sync(refused, "another issuer has sent this answer", 400)
    elif "code" not in parameters:
        message = f"{sign_on.label} says: {redacted(parameters.get('error', '')[:100])}"
        answer = await to_thread.run_sync(refused, message, 403)
    else:
        try:
            claims = await to_thread.run_sync(
                sign_on.claims, signing, parameters["code"][:4000], limiter=_limiter(request)
            )
            answer = await to_thread.run_sync(_started, request, services, signing, claims, attempt)
        except HeadgateError as e:
            answer = await to_thread.run_sync(_refused, request, attempt, e)
    answer.delete_cookie(COOKIE, path="/")
    answer.delete_cookie(SECURE_COOKIE, path="/", secure=True)
    return answer


def _attempt_of(request: Request) -> SignInAttempt:
    plain = (
        request.cookies.get(COOKIE, "") if gate.is_loopback(gate.host_of(request.headers)) else ""
    )
    secret, _, rest = (request.cookies.get(SECURE_COOKIE, "") or plain).partition(".")
    namespace, _, onward = rest.partition(".")
    return SignInAttempt(secret, login.named(namespace), own_path(unquote(onward) or "/"))


def _started(
    request: Request,
    services: PageServices,
    signing: SignIn,
    claims: JsonObject,
    attempt: SignInAttempt,
) -> Response:
    """Open a session. One answer of the issuer opens one session, also when it is sent again."""
    if not browser_sessions.use_up(services.store, signing.state, AWAY_S):
        return login.form(request, attempt.onward, OTHER, 400, namespace=attempt.namespace)
    assert services.sign_on is not None
    request_id = str(request.scope.get("headgate.request_id", ""))
    context = Context(services.store, namespace=attempt.namespace, request_id=request_id)
    token = trust.login(
        context,
        services.sign_on.issuer,
        claims,
        lambda candidate: "" if sees_pages(candidate) else BLIND,
    )
    return login.start_session(
        services, token, attempt.onward, is_plain=_origin(request).startswith("http:")
    )


def _refused(request: Request, attempt: SignInAttempt, error: HeadgateError) -> Response:
    """With the reason, which is the person's own or the issuer's."""
    status = {"unauthenticated": 401, "forbidden": 403, "unavailable": 503}.get(error.code, 422)
    log.warning("sign-in refused", code=error.code, reason=redacted(str(error)))
    return login.form(
        request, attempt.onward, redacted(str(error)), status, namespace=attempt.namespace
    )


def _limiter(request: Request) -> CapacityLimiter:
    """A limiter of few threads: a slow issuer delays only those who sign in there."""
    limiter: CapacityLimiter = request.app.state.signing_in
    return limiter


ROUTES = [Route("/login/start", start, methods=["GET"]), Route(CALLBACK, callback, methods=["GET"])]

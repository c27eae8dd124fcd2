"""Signing in and out: a token in a form, or a link that works once, becomes a session in a cookie.

A link is followed by a button and not by opening it: what opens addresses by itself would use it
up, and looks change nothing.
"""

from __future__ import annotations

from urllib.parse import urlencode

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from controlplane.core.model.access import Token
from controlplane.core.model.namespaces import DEFAULT, is_name, of_text
from controlplane.operations.desired import browser_sessions, namespaces, tokens
from controlplane.ui import gate, page_rendering
from controlplane.ui.forms import fields_of, own_path
from controlplane.ui.page_request import PageServices
from controlplane.ui.session_rights import sees_pages
from controlplane.ui.tries import Tries

NOT_SAFE = "signing in needs https, or this machine itself: put TLS in front of the service, or forward a port to it"
WRONG = "this is no live token, or one that may not look, as a driver's"
LINK_OVER = (
    "this link was used before, or is older than five minutes: `headgate open` makes another"
)


def _services(request: Request) -> PageServices:
    services: PageServices = request.app.state.services
    gate.require_host(request.headers, services.hosts)
    return services


def sign_in_page(request: Request) -> Response:
    _services(request)
    return form(request, own_path(request.query_params.get("next", "/")))


def form(
    request: Request,
    onward: str,
    fault: str = "",
    status: int = 200,
    *,
    namespace: str | None = None,
) -> Response:
    """`namespace`: to which people sign in by an issuer, where the request does not say it. A token
    names its own."""
    services: PageServices = request.app.state.services
    place = namespace_of(request) if namespace is None else namespace
    parameters = {"next": onward} | ({} if place == DEFAULT else {"namespace": place})
    shown = {
        "onward": onward,
        "fault": fault,
        "issuer": services.sign_on.label if services.sign_on else "",
        "start": f"/login/start?{urlencode(parameters)}",
        "namespace": place,
        "is_chosen": place != DEFAULT or len(namespaces.names(services.store)) > 1,
    }
    return page_rendering.page(request, "login.html", shown, status=status)


def namespace_of(request: Request) -> str:
    """The namespace to sign in to: that of the address, or else that of the browser's last session.
    The answer does not show whether it exists."""
    name = request.query_params.get("namespace", "").strip()
    if name:
        return named(name)
    cookies = request.cookies
    return of_text(cookies.get(gate.SECURE_COOKIE) or cookies.get(gate.COOKIE) or "")


def named(text: str) -> str:
    """The name of a namespace; `default` for any other text."""
    return text if is_name(text) else DEFAULT


async def sign_in(request: Request) -> Response:
    fields = await fields_of(request)
    return await to_thread.run_sync(_sign_in, request, fields)


def _sign_in(request: Request, fields: dict[str, str]) -> Response:
    services, onward = _services(request), own_path(fields.get("next", "/"))
    gate.require_same_origin(request.headers)
    tries: Tries = request.app.state.tries
    address = request.client.host if request.client else ""
    if not _is_safe(request):
        return form(request, onward, NOT_SAFE, 403)
    if wait_s := tries.wait_s(address):
        answer = form(
            request, onward, f"too many wrong tokens: try again in {wait_s:.0f} seconds", 429
        )
        answer.headers["Retry-After"] = f"{max(1, round(wait_s))}"
        return answer
    token = tokens.authenticate(services.store, fields.get("token", "").strip())
    if token is None or not sees_pages(token):
        tries.failed(address)
        return form(request, onward, WRONG, 401)
    return start_session(services, token, onward, is_plain=_is_plain(request))


def _is_safe(request: Request) -> bool:
    """Whether the cookie cannot be read in transit. Behind a proxy the browser's `Origin` gives the
    scheme."""
    is_encrypted = request.url.scheme == "https" or request.headers.get("origin", "").startswith(
        "https://"
    )
    return is_encrypted or gate.is_loopback(gate.host_of(request.headers))


def _is_plain(request: Request) -> bool:
    return request.url.scheme != "https" and not request.headers.get("origin", "").startswith(
        "https://"
    )


def start_session(services: PageServices, token: Token, onward: str, *, is_plain: bool) -> Response:
    """Goes on with a session. `is_plain`: the browser is there over http, which only loopback may
    use."""
    answer = RedirectResponse(onward, 303)
    answer.set_cookie(
        gate.COOKIE if is_plain else gate.SECURE_COOKIE,
        browser_sessions.begin(services.store, token),
        max_age=round(browser_sessions.LONGEST_S),
        path="/",
        secure=not is_plain,
        httponly=True,
        samesite="lax",
    )
    return answer


async def sign_out(request: Request) -> Response:
    fields = await fields_of(request)
    return await to_thread.run_sync(_sign_out, request, fields)


def _sign_out(request: Request, fields: dict[str, str]) -> Response:
    services = _services(request)
    # Also where a cookie was kept back: the answer takes it away
    gate.require_same_origin(request.headers)
    if (text := gate.session_text(request.headers, services.hosts)) is not None:
        gate.require_proof(request.headers, text, fields.get(gate.PROOF_FIELD, ""))
        browser_sessions.end(services.store, text)
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(gate.COOKIE, path="/")
    answer.delete_cookie(gate.SECURE_COOKIE, path="/", secure=True)
    return answer


def link_page(request: Request) -> Response:
    services, key = _services(request), request.query_params.get("key", "")
    token = browser_sessions.token_of_link(services.store, key)
    if token is None:
        return form(request, "/", LINK_OVER, 410)
    shown = {
        "key": key,
        "name": token.name,
        "onward": own_path(request.query_params.get("next", "/")),
    }
    return page_rendering.page(request, "open.html", shown)


async def follow_link(request: Request) -> Response:
    fields = await fields_of(request)
    return await to_thread.run_sync(_follow_link, request, fields)


def _follow_link(request: Request, fields: dict[str, str]) -> Response:
    services = _services(request)
    gate.require_same_origin(request.headers)
    if not _is_safe(request):
        return form(request, "/", NOT_SAFE, 403)
    token = browser_sessions.follow(services.store, fields.get("key", ""))
    if token is None or not sees_pages(token):
        return form(request, "/", LINK_OVER, 410)
    return start_session(
        services, token, own_path(fields.get("next", "/")), is_plain=_is_plain(request)
    )


ROUTES = [
    Route("/login", sign_in_page, methods=["GET"]),
    Route("/login", sign_in, methods=["POST"]),
    Route("/logout", sign_out, methods=["POST"]),
    Route("/open", link_page, methods=["GET"]),
    Route("/open", follow_link, methods=["POST"]),
]

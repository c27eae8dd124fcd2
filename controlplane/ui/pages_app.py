"""The application of the pages: routes, errors as pages, and the headers that every answer has."""

from __future__ import annotations

from urllib.parse import quote

from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from controlplane import logs
from controlplane.core.errors import HeadgateError, problem_text
from controlplane.core.model.branches import MAIN
from controlplane.core.redaction import redacted
from controlplane.http_status import STATUS
from controlplane.operations.context import Context
from controlplane.operations.inspect import hidden
from controlplane.ui import (
    actions,
    activity_pages,
    branch_pages,
    bulk_pages,
    catalogue_pages,
    feed_pages,
    find_pages,
    login,
    page,
    page_rendering,
    pages,
    past_pages,
    plan_pages,
    profile_pages,
    query_pages,
    rows_pages,
    settings_pages,
    sign_on,
    static_files,
    work_pages,
)
from controlplane.ui.forms import own_address
from controlplane.ui.names import BRANCH
from controlplane.ui.page_request import PageServices, SignedOut
from controlplane.ui.rows_cache import RowsCache
from controlplane.ui.tries import Tries

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGE_CODES = {
    "corrupt-node",
    "forbidden",
    "generation-gone",
    "not-found",
    "unauthenticated",
    "unavailable",
}
REFUSED = 422  # a form, for any other reason
QUERY_THREADS = 12  # of queries that run or wait for their turn: pages do not wait for them
TITLES = {
    401: "Sign in first",
    403: "Not allowed",
    404: "There is no such page",
    405: "Not in this way",
    410: "Gone",
    500: "Something broke",
    503: "Not now",
}

log = logs.get("ui")


class PagesApp:
    """ASGI: every page, behind `controlplane.api.edge`."""

    def __init__(self, services: PageServices) -> None:
        self._app = Starlette(
            routes=[
                *bulk_pages.ROUTES,
                *catalogue_pages.ROUTES,
                *feed_pages.ROUTES,
                *find_pages.ROUTES,
                *rows_pages.ROUTES,
                *pages.ROUTES,
                *past_pages.ROUTES,
                *profile_pages.ROUTES,
                *plan_pages.ROUTES,
                *query_pages.ROUTES,
                *settings_pages.ROUTES,
                *activity_pages.ROUTES,
                *work_pages.ROUTES,
                *branch_pages.ROUTES,
                *login.ROUTES,
                *sign_on.ROUTES,
                *actions.ROUTES,
                Route("/static/{name}", static_files.serve, methods=["GET"]),
            ],
            exception_handlers={
                HeadgateError: _refused,
                HTTPException: _not_routed,
                OSError: _outage,
                Exception: _fault,  # which is raised again after the answer, for the edge to log
            },
        )
        self._app.router.redirect_slashes = False
        self._app.state.services, self._app.state.tries = services, Tries()
        self._app.state.rows = RowsCache()
        self._app.state.signing_in = CapacityLimiter(sign_on.AT_ONCE)
        self._app.state.query_threads = CapacityLimiter(QUERY_THREADS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, guarded)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HeadgateError)
    if isinstance(error, SignedOut) and request.method == "GET" and not _is_for_a_program(request):
        here = own_address(request)
        return RedirectResponse(
            f"/login?next={quote(here, safe='')}" if here != "/" else "/login", 303
        )
    status = STATUS[error.code] if error.code in PAGE_CODES else REFUSED
    return _problem(request, status, error.code, problem_text(error))


def _is_for_a_program(request: Request) -> bool:
    """A fragment is no place for a form to sign in, either."""
    return page.wants_json(request) or "part" in request.query_params


def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "invalid-request")
    words = "nothing has this address" if error.status_code == 404 else str(error.detail)
    return _problem(request, error.status_code, code, words)


def _outage(request: Request, error: Exception) -> Response:
    log.warning(
        "page failed", path=request.url.path, request_id=_request_id(request), reason=str(error)
    )
    words = "the database or the lake does not answer; the log has the reason under this request id"
    return _problem(request, 503, "unavailable", words)


def _fault(request: Request, _: Exception) -> Response:
    return _problem(
        request, 500, "internal", "something broke; the log has it under this request id"
    )


def _request_id(request: Request) -> str:
    return str(request.scope.get("headgate.request_id", ""))


def _other_branch(request: Request) -> str:
    """That the page was to be about, whether there is one or not; empty for main."""
    name = request.query_params.get("branch", MAIN)
    return name if name != MAIN and BRANCH.fullmatch(name) else ""


def _redacted(request: Request, text: str) -> str:
    """In words that its reader may see, as far as it is known who that is."""
    reader: Context | None = getattr(request.state, "reader", None)
    sent = getattr(request.state, "form", "")
    return (
        text
        if reader is None
        else hidden.words(reader, text, f"{request.url.path} {request.url.query} {sent}")
    )


def _problem(request: Request, status: int, code: str, detail: str) -> Response:
    """For people a page, for programs the same as the API's problem."""
    text = _redacted(request, redacted(detail))
    if _is_for_a_program(request) or request.url.path.endswith(page.TWIN):
        value = {
            "type": f"urn:headgate:{code}",
            "status": status,
            "detail": text,
            "request_id": _request_id(request),
            "errors": [],
        }
        return JSONResponse(value, status, media_type="application/problem+json")
    shown = {
        "status": status,
        "code": code,
        "title": TITLES.get(status, "This was refused"),
        "detail": text,
        "request_id": _request_id(request),
        "branch": _other_branch(request),
        "in_main": own_address(request, branch=MAIN),
    }
    return page_rendering.page(request, "problem.html", shown, status=status)

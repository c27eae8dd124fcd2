"""Tokens that are narrowed to some names, and tokens that end while they are at it.

Which routes are open to them, what their answers show, and how long these go on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, cast

from anyio import CapacityLimiter, to_thread
from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from controlplane.api import problem_json
from controlplane.api.authentication import CHALLENGE
from controlplane.api.problem_json import RequestRefused
from controlplane.api.services import Services
from controlplane.core.model.access import Token
from controlplane.core.model.json_values import JsonValue
from controlplane.core.name_redaction import NameRedaction
from controlplane.core.rights import TokenScope
from controlplane.operations.desired import tokens
from controlplane.operations.inspect import hidden

OpenTo: TypeAlias = Literal["whole", "branches", "all"]
EVENTS = "text/event-stream"
LONG_S = 0.5  # after which a token is looked up again: it may have ended while the request waited


def require_open(within: TokenScope, open_to: OpenTo) -> None:
    """Refused for a token that is narrowed more than a route can be."""
    is_open = open_to == "all" or (
        open_to == "branches" and not within.dataflows and not within.datasets
    )
    if within and not is_open:
        raise RequestRefused(
            "forbidden",
            "this token is narrowed to some names, and this is about the whole installation",
        )


async def answered(
    app_services: Services,
    request: Request,
    token: Token,
    inner: Callable[[Request], Awaitable[Response]],
    limiter: CapacityLimiter,
) -> Response:
    """The answer of a route, as the token may see it."""
    began = time.monotonic()
    name_redaction: NameRedaction | None = None
    if token.principal.within:
        name_redaction = await to_thread.run_sync(
            _name_redaction, app_services, request, token, limiter=limiter
        )
        request.scope["headgate.veil"] = name_redaction
    try:
        response = await inner(request)
    finally:
        if name_redaction is not None:
            request.scope["headgate.body"] = getattr(request, "_body", b"")  # as far as it was read
    if request.method == "GET" and time.monotonic() - began > LONG_S:
        await _require_live(app_services, token, limiter)
    if isinstance(response, StreamingResponse):
        has_no_end = response.media_type == EVENTS
        response.body_iterator = app_services.token_watch.while_live(
            token.id, response.body_iterator, token.principal, has_no_end=has_no_end
        )
    elif name_redaction is not None and _media_type(response).endswith("json") and response.body:
        return _names_redacted(response, request, name_redaction)
    return response


def _name_redaction(app_services: Services, request: Request, token: Token) -> NameRedaction:
    """Over main and the branches that the address names."""
    named = (
        request.path_params.get("branch"),
        request.path_params.get("other"),
        request.query_params.get("branch"),
    )
    return hidden.name_redaction_of(
        app_services.context(token, problem_json.request_id(request)),
        [name for name in named if name],
    )


def _media_type(response: Response) -> str:
    """An answer that is given again (`Call.once`) has it among its headers alone."""
    return response.headers.get("content-type", "").partition(";")[0].strip()


def _names_redacted(
    response: Response, request: Request, name_redaction: NameRedaction
) -> Response:
    value = cast("JsonValue", json.loads(bytes(response.body)))
    # Of a request with an Idempotency-Key
    is_problem = _media_type(response) == problem_json.MEDIA_TYPE
    return _with(response, name_redaction.over(value, _sent(request) if is_problem else ""))


def _with(response: Response, value: JsonValue) -> Response:
    """The same answer with another body."""
    headers = {
        name: text
        for name, text in response.headers.items()
        if name not in ("content-length", "content-type")
    }
    return JSONResponse(
        value, response.status_code, headers, _media_type(response), response.background
    )


def problem(response: JSONResponse, request: Request) -> Response:
    """A problem in words that its reader may see."""
    name_redaction = request.scope.get("headgate.veil")
    if not isinstance(name_redaction, NameRedaction):
        return response
    return _with(response, name_redaction.over(json.loads(bytes(response.body)), _sent(request)))


def _sent(request: Request) -> str:
    """All that the request says."""
    body = request.scope.get("headgate.body", b"")
    return f"{request.url.path} {request.url.query} {bytes(body).decode(errors='replace')}"


# --- tokens that end ------------------------------------------------------------------------------


async def _require_live(app_services: Services, token: Token, limiter: CapacityLimiter) -> None:
    """Refused if it has ended since the request came."""
    if not await to_thread.run_sync(tokens.is_live, app_services.store, token.id, limiter=limiter):
        raise RequestRefused("unauthenticated", "this token has ended", CHALLENGE)

"""Who may call a route. All is closed: a router opens its routes to administrators; four routes are public, and one
is for who has a signed link."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Depends, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from controlplane.api.access import CHALLENGE, authenticate, require
from controlplane.api.problems import RequestRefused
from controlplane.api.services import Services
from controlplane.core.model.access import Token

LINK = "/v1/links/{link}/{file}"  # opened by the signature in its query, and by no token
PUBLIC = frozenset({"/livez", "/readyz", "/openapi.json", "/schema/blueprint-v1.json"})

bearer = HTTPBearer(auto_error=False, description="A token that starts with `hg_`.")


class Encoded(APIRoute):
    """A route that has encoded its answer itself: FastAPI neither validates it nor encodes it again."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **{**options, "response_model": None})


class Guarded(Encoded):
    """Looks at the token before the body is read; the router's dependency then looks at its scope."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            found = services(request)
            limiter = found.threads.of(self.path)
            request.scope["headgate.token"] = await to_thread.run_sync(authenticate, found, request, limiter=limiter)
            return await inner(request)

        return handle


async def _allowed(request: Request, _: Annotated[object, Depends(bearer)]) -> None:
    require(services(request), caller(request), "admin")


def router() -> APIRouter:
    """A router whose routes are open to administrators' tokens, and to nobody else."""
    return APIRouter(route_class=Guarded, dependencies=[Depends(_allowed)])


def caller(request: Request) -> Token:
    """The token that this request came with; refused if nobody looked at it."""
    token = request.scope.get("headgate.token")
    if not isinstance(token, Token):
        raise RequestRefused("unauthenticated", "a token is needed", CHALLENGE)
    return token


def services(request: Request) -> Services:
    found = request.app.state.services
    assert isinstance(found, Services)
    return found

"""Who may call a route: each needs one permission, which its router or the route itself names; four
are public, one is for who has a signed link, and one for who has an identity token.

A router that names none is open to administrators alone.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeAlias, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

from controlplane.api import token_scope
from controlplane.api.authentication import authenticate, require, services
from controlplane.api.calls import JsonAnswer
from controlplane.api.token_scope import OpenTo
from controlplane.core import rest
from controlplane.core.rights import Permission

LINK = rest.READ_LINK.path  # opened by the signature in its query, and by no token
EXCHANGE = rest.EXCHANGE.path  # opened by the identity token in its body
PUBLIC = frozenset({"/livez", "/readyz", "/openapi.json", "/schema/blueprint-v1.json"})

T = TypeVar("T")
P = ParamSpec("P")
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Served: TypeAlias = T | Coroutine[Any, Any, T]

bearer = HTTPBearer(auto_error=False, description="A token that starts with `hg_`.")


class EncodedRoute(APIRoute):
    """A route that has encoded its answer itself: FastAPI neither validates it nor encodes it
    again."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **{**options, "response_model": None})


@dataclass(frozen=True, slots=True)
class Need:
    """The permission of a route. It stands among dependencies, since routers hand those to their
    routes."""

    permission: Permission
    open_to: OpenTo

    async def __call__(self) -> None:
        """`Guarded` has looked by then. A coroutine, since others would take a thread each."""


class Guarded(EncodedRoute):
    """Check the token and its permission before the body is read. A route's own need overrides the
    need of its router."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        declared = (dependency.dependency for dependency in self.dependencies)
        self.need = [need for need in declared if isinstance(need, Need)][-1]

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            app_services = services(request)
            limiter = app_services.threads.of(self.path)
            token = await to_thread.run_sync(authenticate, app_services, request, limiter=limiter)
            require(app_services, token.principal, self.need.permission)
            token_scope.require_open(token.principal.within, self.need.open_to)
            request.scope["headgate.token"], request.scope["headgate.need"] = (
                token,
                self.need.permission,
            )
            return await token_scope.answered(app_services, request, token, inner, limiter)

        return handle


class Routes(APIRouter):
    """A router that takes method, path and status from the values that the client calls, too
    (`core.rest`)."""

    def answers(
        self, route: rest.Route[T], **options: Any
    ) -> Callable[[Callable[P, Served[JsonAnswer[T]]]], Callable[P, Served[JsonAnswer[T]]]]:
        """Serve a route by a function that returns its answer."""
        return self._serve(route, options)

    def responds(
        self, route: rest.Route[None] | rest.Route[str] | rest.Route[bytes], **options: Any
    ) -> Callable[[Callable[P, Served[Response]]], Callable[P, Served[Response]]]:
        """Serve a route whose answer is no JSON."""
        return self._serve(route, options)

    def _serve(
        self, route: rest.Route[Any], options: dict[str, Any]
    ) -> Callable[[Endpoint], Endpoint]:
        return self.api_route(
            route.path, methods=[route.method], status_code=route.status, **options
        )


def router(permission: Permission = "admin", open_to: OpenTo = "whole") -> Routes:
    """A router whose routes need this permission, unless they name another one (`needs`).

    `open_to`: which tokens may come that are narrowed to some names: none (`whole`), those that are
    narrowed to branches (`branches`), or all. A route that lets them in checks every name that it
    is sent: those in its path by the types of `calls`, others by `Call.target`, `Call.flows` and
    `branch_of`. Names in JSON answers are looked after.
    """
    return Routes(route_class=Guarded, dependencies=[Depends(bearer), *needs(permission, open_to)])


def needs(permission: Permission, open_to: OpenTo = "whole") -> list[Depends]:
    """The `dependencies` of a route that needs another permission than its router says, or is open
    to others."""
    return [Depends(Need(permission, open_to))]

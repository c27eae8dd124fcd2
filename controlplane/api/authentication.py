"""Whose request it is: the token of a request, looked up in the store, and whether it has a
permission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request

from controlplane.api.driver_services import DriverServices
from controlplane.api.problem_json import RequestRefused
from controlplane.core.model.access import Token
from controlplane.core.rights import Permission, Principal, may
from controlplane.operations.desired import tokens
from controlplane.ui import gate

if TYPE_CHECKING:
    from controlplane.api.services import Services

NO_TOKEN = (
    "the token is missing, unknown, expired or revoked: send Authorization: Bearer hg_..., "
    "or set HEADGATE_TOKEN for the command line"
)
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="headgate"'}


def authenticate(services: DriverServices, request: Request) -> Token:
    """The live token that a request came with, or that of the session of its cookie; Refused
    without one."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind:
        token = (
            tokens.authenticate(services.store, text.strip())
            if kind.lower() == "bearer" and text
            else None
        )
    else:  # a browser's; `gate` refuses what its user may not have meant
        token = gate.session_token(services.store, services.hosts, request.method, request.headers)
    if token is None:
        services.counters.add("token_failures")
        raise RequestRefused("unauthenticated", NO_TOKEN, CHALLENGE)
    return token


def caller(request: Request) -> Token:
    """The token of this request. Refused if the request was not authenticated."""
    token = request.scope.get("headgate.token")
    if not isinstance(token, Token):
        raise RequestRefused("unauthenticated", "a token is needed", CHALLENGE)
    return token


def services(request: Request) -> Services:
    from controlplane.api.services import Services

    app_services = request.app.state.services
    assert isinstance(app_services, Services)
    return app_services


def require(services: DriverServices, principal: Principal, permission: Permission) -> None:
    """Refused without the permission, narrowed or not."""
    if not may(principal, permission):
        services.counters.add("token_failures")
        raise RequestRefused("forbidden", f"this token does not have the permission {permission}")


def require_driver(services: DriverServices, token: Token) -> None:
    if "driver" not in token.scopes:
        services.counters.add("token_failures")
        raise RequestRefused("forbidden", "this token does not have the scope driver")

"""One request for a page: whose it is, and what it may see.

Does not belong here: cookies and proofs (`gate`), what pages show (`views`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from starlette.requests import Request

from controlplane.core.errors import HeadgateError
from controlplane.core.model.access import Token
from controlplane.core.model.branches import MAIN
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ports.store import Store
from controlplane.ui import gate
from controlplane.ui.rights import Permission, may
from controlplane.ui.views import Render


class SignedOut(HeadgateError):
    """Nobody has signed in."""

    code = "unauthenticated"


class NotAllowed(HeadgateError):
    """The token lacks a permission."""

    code = "forbidden"


class PageServices(Protocol):
    """What pages are given: a part of what the API has."""

    @property
    def store(self) -> Store: ...

    @property
    def hosts(self) -> frozenset[str]: ...

    @property
    def render(self) -> Render: ...

    def context(self, token: Token, request_id: str) -> Context: ...


@dataclass(frozen=True, slots=True)
class Asking:
    """`proof`: for forms of this session; empty where a Bearer token came instead of a cookie."""

    request: Request
    services: PageServices
    token: Token
    context: Context
    proof: str
    branch: str = MAIN

    def query(self, name: str) -> str:
        """A parameter of the address, cut to what anybody would type."""
        return self.request.query_params.get(name, "")[:LONGEST_QUERY]

    def require(self, permission: Permission) -> None:
        """Raises NotAllowed."""
        if not may(self.token, permission):
            raise NotAllowed(f"this token does not have the permission {permission}")


LONGEST_QUERY = 300


def asking(request: Request) -> Asking:
    """Raises SignedOut, WrongHost."""
    services: PageServices = request.app.state.services
    gate.require_host(request.headers, services.hosts)
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    proof = ""
    if kind:
        token = tokens.authenticate(services.store, text.strip()) if kind.lower() == "bearer" else None
    else:
        session = gate.session_text(request.headers, services.hosts)
        proof = gate.proof_of(session) if session else ""
        token = gate.session_token(services.store, services.hosts, request.method, request.headers)
    if token is None:
        raise SignedOut("sign in with a token, or send one: Authorization: Bearer hg_...")
    request_id = str(request.scope.get("headgate.request_id", ""))
    return Asking(request, services, token, services.context(token, request_id), proof)

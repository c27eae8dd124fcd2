"""One request for a page: its principal, and the rights of that."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

from starlette.requests import Request

from controlplane.core.errors import HeadgateError
from controlplane.core.model.access import Token
from controlplane.core.model.answers import Standstill
from controlplane.core.model.branches import MAIN
from controlplane.operations.context import Context
from controlplane.operations.desired import branches, tokens
from controlplane.operations.inspect import hidden, standstill
from controlplane.operations.upkeep.collect import Forget
from controlplane.ports.issuers import SignOn
from controlplane.ports.lake import ObjectStore
from controlplane.ports.records import RenderRecords
from controlplane.ports.row_diff import CompareRows
from controlplane.ports.store import Store
from controlplane.services.queries.queries import Queries
from controlplane.ui import gate
from controlplane.ui.forms import own_address
from controlplane.ui.session_rights import Permission, may, sees_pages


class SignedOut(HeadgateError):
    """The request has no session."""

    code = "unauthenticated"


class NotAllowed(HeadgateError):
    """The token lacks a permission."""

    code = "forbidden"


class PageServices(Protocol):
    """The services that pages use: a part of the API's."""

    @property
    def store(self) -> Store: ...

    @property
    def hosts(self) -> frozenset[str]: ...

    @property
    def sign_on(self) -> SignOn | None:
        """How people sign in at an issuer, where they can."""

    @property
    def render(self) -> RenderRecords: ...

    @property
    def compare(self) -> CompareRows: ...

    @property
    def lake(self) -> ObjectStore: ...

    @property
    def queries(self) -> Queries: ...

    @property
    def packages(self) -> Callable[[str], Forget | None]: ...

    @property
    def log(self) -> Callable[[str, int], str]:
        """The last lines of a driver's log (`DriverPool.log`)."""

    @property
    def is_shown_only(self) -> bool:
        """Nothing is computed here, and no action is offered."""

    def turn(self, key: str) -> threading.Lock: ...

    def context(self, token: Token, request_id: str) -> Context: ...


@dataclass(frozen=True, slots=True)
class PageRequest:
    """`proof`: for forms of this session; empty where a Bearer token came instead of a cookie.
    `branch`: the page's branch, by `?branch=`; `branches`: all branches, main first."""

    request: Request
    services: PageServices
    token: Token
    context: Context
    proof: str
    branch: str = MAIN
    branches: tuple[str, ...] = (MAIN,)

    def query(self, name: str) -> str:
        """A parameter of the address, cut to the length of a text that is typed."""
        return self.request.query_params.get(name, "")[:LONGEST_QUERY]

    @property
    def origin(self) -> str:
        """Where the service is, as the browser has it."""
        return str(self.request.base_url).rstrip("/")

    def require(self, permission: Permission) -> None:
        """Raises NotAllowed."""
        if not may(self.token, permission):
            raise NotAllowed(f"this token does not have the permission {permission}")

    def may(self, permission: Permission, name: str) -> bool:
        """Whether it has the permission for a dataset, or for a dataflow as a whole."""
        kind = "dataset" if "." in name else "dataflow"
        return may(self.token, permission, **{kind: name})

    @property
    def is_of_all_names(self) -> bool:
        """Whether it sees every dataflow and dataset, if maybe not every branch."""
        within = self.token.principal.within
        return not within.dataflows and not within.datasets

    def why_not(self, permission: Permission) -> str:
        """Why this session may not ask for what needs the permission; empty if it may."""
        if permission not in READ_PERMISSIONS and self.services.is_shown_only:
            return "this home is only shown: a service on it (headgate serve) takes requests"
        return (
            ""
            if may(self.token, permission)
            else f"this token does not have the permission {permission}"
        )

    @property
    def standstill(self) -> Standstill | None:
        """Why nothing is computed, for the strip on every page."""
        return standstill.now(self.context)

    def at(self, path: str) -> str:
        """A page of this branch, by its path without a query."""
        return path if self.branch == MAIN else f"{path}?branch={quote(self.branch)}"

    def switched(self, branch: str) -> str:
        """This page in another branch. Where in a list one was means nothing there."""
        return own_address(self.request, without=("part", "after", "gen"), branch=branch)

    @property
    def once(self) -> str:
        """A new text for a form, by which a repeated form counts once."""
        return secrets.token_hex(16)


LONGEST_QUERY = 300
BETWEEN = "..."  # two branches in an address
READ_PERMISSIONS: frozenset[Permission] = frozenset({"view", "data"})


def page_request_of(request: Request, proof_sent: str | None = None) -> PageRequest:
    """`given`: the proof that a form brought. Raises SignedOut, WrongHost, NotProven,
    NotAllowed."""
    services: PageServices = request.app.state.services
    gate.require_host(request.headers, services.hosts)
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    proof = ""
    if kind:
        token = (
            tokens.authenticate(services.store, text.strip()) if kind.lower() == "bearer" else None
        )
    else:
        session = gate.session_text(request.headers, services.hosts)
        proof = gate.proof_of(session) if session else ""
        token = gate.session_token(
            services.store, services.hosts, request.method, request.headers, proof_sent
        )
    if token is None:
        raise SignedOut("sign in with a token, or send one: Authorization: Bearer hg_...")
    if not sees_pages(token):
        raise NotAllowed("this token may not look: pages need the permission view")
    request_id = str(request.scope.get("headgate.request_id", ""))
    context = services.context(token, request_id)
    names = [name for name in branches.names(context) if may(token, "view", branch=name)]
    branch = request.query_params.get("branch", MAIN if MAIN in names else next(iter(names), MAIN))
    if branch not in names:
        raise branches.no_branch(branch)
    context = hidden.names_redacted(
        context, [branch, *str(request.path_params.get("name", "")).split(BETWEEN)]
    )
    request.state.reader = context  # by whose rights an error is redacted
    return PageRequest(
        request, services, token, context, proof, branch=branch, branches=tuple(names)
    )

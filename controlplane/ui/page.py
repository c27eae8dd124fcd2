"""A page: one value, as HTML or, at the same path with `.json`, as it is."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from controlplane.core.errors import NotFound
from controlplane.core.model.branches import MAIN
from controlplane.core.rights import may_see_part
from controlplane.operations.inspect import overview
from controlplane.ui import page_rendering
from controlplane.ui.actions import ACTIONS, NOTICE_COOKIE
from controlplane.ui.forms import own_address
from controlplane.ui.names import DATASET, FLOW
from controlplane.ui.page_request import PageRequest, page_request_of
from controlplane.ui.session_rights import Permission

V = TypeVar("V")
TWIN = ".json"
CURL = 'curl -H "Authorization: Bearer $HEADGATE_TOKEN"'


@dataclass(frozen=True, slots=True)
class Page(Generic[V]):
    """`shown`: values that only the template needs, made of the value. `command`: the command that
    shows the same; `shown` may have other `commands`. `is_of_branch`: another branch has another
    page, and so does the command."""

    template: str
    value: Callable[[PageRequest], V]
    shown: Callable[[PageRequest, V], Mapping[str, Any]]
    command: Callable[[PageRequest], str]
    permission: Permission = "view"
    is_of_branch: bool = True

    def __call__(self, request: Request) -> Response:
        """As JSON where the path or the Accept header says so."""
        page_request = page_request_of(request)
        page_request.require(self.permission)
        # Before the value: what comes in between is shown twice
        after = overview.newest_event(page_request.context)
        value = self.value(page_request)
        if wants_json(request):
            return JSONResponse(value)
        return self.show(page_request, value, after)

    def show(
        self, page_request: PageRequest, value: V, after: int, *, status: int = 200
    ) -> Response:
        """As HTML. `after`: the newest event that the value knows of."""
        request, part = page_request.request, page_request.query("part")
        path, mark, query = own_address(request).partition("?")
        twin = ("/index.json" if path == "/" else f"{path}{TWIN}") + mark + query
        shown = {
            "page": value,
            "twin": twin,
            "here": path,
            "asked": page_request,
            "after": after,
            "done": ACTIONS.get(request.cookies.get(NOTICE_COOKIE, "")) if not part else None,
            "onward": own_address(request, without=("part",)),
            "part_url": lambda part: own_address(request, part=part),
            "commands": [
                ("Shell", self._command(page_request)),
                ("curl", f"{CURL} {shlex.quote(page_request.origin + twin)}"),
            ],
            **self.shown(page_request, value),
        }
        answer = _rendered(page_request, self.template, shown, part=part, status=status)
        if shown["done"]:
            answer.delete_cookie(NOTICE_COOKIE, path="/")
        return answer

    def _command(self, page_request: PageRequest) -> str:
        is_elsewhere = self.is_of_branch and page_request.branch != MAIN
        return (
            f"{self.command(page_request)} --branch {page_request.branch}"
            if is_elsewhere
            else self.command(page_request)
        )


def _rendered(
    page_request: PageRequest, template: str, shown: Mapping[str, Any], *, part: str, status: int
) -> Response:
    try:
        return page_rendering.page(
            page_request.request,
            template,
            shown,
            status=status,
            part=part,
            branch=page_request.branch,
        )
    except KeyError:
        if part:
            raise NotFound("this page has no such part") from None
        raise


def wants_json(request: Request) -> bool:
    return is_twin(request) or (
        "text/html" not in request.headers.get("accept", "text/html, */*")
        and ("application/json" in request.headers.get("accept", ""))
    )


def is_twin(request: Request) -> bool:
    return bool(getattr(request.state, "is_twin", False))


def named(page_request: PageRequest, kind: str, pattern: re.Pattern[str]) -> str:
    name = str(page_request.request.path_params["name"])
    if not pattern.fullmatch(name):
        raise no_such(kind)
    return name


def no_such(kind: str) -> NotFound:
    """One error for an invalid name, a missing thing and a hidden one, so that it reveals no hidden
    name."""
    return NotFound(f"there is no {kind} of this name")


def flow_of(page_request: PageRequest) -> str:
    """One that is seen whole. Raises NotFound."""
    name = named(page_request, "dataflow", FLOW)
    if not page_request.may("view", name):
        raise no_such("dataflow")
    return name


def part_of_flow(page_request: PageRequest) -> str:
    """One that is seen in part, or whole. Raises NotFound."""
    name = named(page_request, "dataflow", FLOW)
    if not may_see_part(page_request.token.principal, name):
        raise no_such("dataflow")
    return name


def dataset_of(page_request: PageRequest) -> str:
    """Raises NotFound."""
    name = named(page_request, "dataset", DATASET)
    if not page_request.may("view", name):
        raise no_such("dataset")
    return name


def nothing(page_request: PageRequest, page: object) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    """For templates that need no more than the value."""
    return {}


def both(path: str, page: Page[Any]) -> list[Route]:
    """The routes of a page and of its twin. A twin's comes first: a name of a dataset has a dot,
    too."""

    def twin(request: Request) -> Response:
        request.state.is_twin = True
        return page(request)

    twin_path = "/index.json" if path == "/" else f"{path}{TWIN}"
    return [Route(twin_path, twin, methods=["GET"]), Route(path, page.__call__, methods=["GET"])]

"""Pages for administrators: tokens and keys, and looking after the database and the lake.

A new token and the findings of a check are in the answer to their form alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from controlplane.core.model.answers import CollectAnswer, FsckAnswer
from controlplane.operations.desired import roles, s3_keys, tokens, trust
from controlplane.operations.inspect import audit, overview
from controlplane.operations.upkeep import upkeep_requests
from controlplane.ui.actions import BadForm, Fields, once, proven
from controlplane.ui.forms import fields_of
from controlplane.ui.page import Page, both
from controlplane.ui.page_request import PageRequest
from controlplane.ui.work_values import CarePage, TokensPage

DAY_S = 86_400.0
MOST_DAYS = 3660
CARE = frozenset({"gc", "gc.packs", "fsck.repair"})
CHANGES = 200


def _tokens(page_request: PageRequest) -> TokensPage:
    return {
        "tokens": tokens.listing(page_request.context),
        "s3_keys": s3_keys.listing(page_request.context),
        "trust": trust.listing(page_request.context),
    }


def _scopes(page_request: PageRequest) -> list[str]:
    return [role["name"] for role in roles.listing(page_request.context)]


def _with_scopes(page_request: PageRequest, page: TokensPage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {
        "scopes": _scopes(page_request),
        "made": page_request.request.scope.get("headgate.made"),
    }


def _care(page_request: PageRequest) -> CarePage:
    changes = audit.changes(page_request.context, page_request.branch, CHANGES)["items"]
    return {"audit": [change for change in changes if change["action"] in CARE]}


def _with_found(page_request: PageRequest, page: CarePage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {
        "checked": page_request.request.scope.get("headgate.checked"),
        "collected": page_request.request.scope.get("headgate.gc"),
    }


TOKENS = Page(
    "tokens.html",
    _tokens,
    _with_scopes,
    lambda _: "headgate token list",
    permission="admin",
    is_of_branch=False,
)
CARE_PAGE = Page(
    "care.html",
    _care,
    _with_found,
    lambda _: "headgate fsck",
    permission="admin",
    is_of_branch=False,
)


async def make_token(request: Request) -> Response:
    return await to_thread.run_sync(_make_token, request, await fields_of(request))


def _make_token(request: Request, fields: Fields) -> Response:
    page_request = proven(request, fields, "admin")
    name, scope, days = (
        fields.get("name", "").strip(),
        fields.get("scope", ""),
        fields.get("days", ""),
    )
    if not (0 < len(name) <= 100 and name.isprintable()) or scope not in _scopes(page_request):
        raise BadForm("a token has a name of up to 100 printable characters, and a role")
    if days and not (days.isascii() and days.isdigit() and 0 < int(days[:9]) <= MOST_DAYS):
        raise BadForm(f"a token lives for 1 to {MOST_DAYS} days, or for ever")

    def make() -> None:
        ttl_s = int(days) * DAY_S if days else None
        text, token = tokens.create(
            page_request.context, name, (scope,), ttl_s=ttl_s, is_unique=True
        )
        request.scope["headgate.made"] = {"name": token.name, "text": text}

    once(page_request, "token", fields, make)
    return TOKENS.show(
        page_request, _tokens(page_request), overview.newest_event(page_request.context)
    )


async def care(request: Request) -> Response:
    return await to_thread.run_sync(_take_care, request, await fields_of(request))


def _take_care(request: Request, fields: Fields) -> Response:
    page_request = proven(request, fields, "admin")
    match fields.get("do"):
        case "check":
            request.scope["headgate.checked"] = _check(
                page_request, with_files=fields.get("files") == "yes"
            )
        case "collect":
            request.scope["headgate.gc"] = _collect(page_request)
        case _:
            raise BadForm("this form asks for nothing that there is")
    return CARE_PAGE.show(
        page_request, _care(page_request), overview.newest_event(page_request.context)
    )


def _check(page_request: PageRequest, *, with_files: bool) -> FsckAnswer:
    return upkeep_requests.check_now(
        page_request.context, page_request.services.lake if with_files else None
    )


def _collect(page_request: PageRequest) -> CollectAnswer:
    return upkeep_requests.collect_now(
        page_request.context,
        page_request.services.lake,
        page_request.services.packages(page_request.context.namespace),
        packs=False,
    )


ROUTES: list[Route] = [
    *both("/settings/tokens", TOKENS),
    *both("/settings/care", CARE_PAGE),
    Route("/settings/tokens", make_token, methods=["POST"]),
    Route("/settings/care", care, methods=["POST"]),
]

"""The application for people and programs: all routes but the drivers', one shape of errors, closed
by default."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from controlplane.api import problem_json, token_scope
from controlplane.api.description import allowed, describe
from controlplane.api.event_feed import EventFeeds
from controlplane.api.routes import (
    alerts,
    audit,
    blueprints,
    branches,
    changes,
    datasets,
    differences,
    events,
    examples,
    explore,
    feeds,
    imports,
    lineage,
    links,
    namespaces,
    operate,
    past_runs,
    profiles,
    public,
    queries,
    records,
    roles,
    rollback,
    runs,
    s3_keys,
    session_links,
    shares,
    spark_sessions,
    spending,
    tokens,
    trust,
    upkeep,
)
from controlplane.api.services import Services
from controlplane.core.errors import HeadgateError
from dataplane.contract.schemas import Json

ROUTERS = (
    public,
    blueprints,
    branches,
    differences,
    datasets,
    records,
    changes,
    past_runs,
    spending,
    profiles,
    operate,
    audit,
    rollback,
    runs,
    roles,
    tokens,
    trust,
    namespaces,
    s3_keys,
    links,
    session_links,
    spark_sessions,
    examples,
    shares,
    feeds,
    imports,
    upkeep,
    events,
    alerts,
    lineage,
    explore,
    queries,
)

TITLE = "Headgate"


def create_app(services: Services) -> FastAPI:
    """Routes over these services. Served behind `controlplane.api.edge`."""
    app = FastAPI(
        title=TITLE,
        version=version("headgate"),
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.services, app.state.feeds = services, EventFeeds(services)
    for kind in (HeadgateError, HTTPException, RequestValidationError, OSError):
        app.add_exception_handler(kind, _problem)
    # An error of our own is answered here and raised again, for the edge to log
    app.add_exception_handler(Exception, _fault)
    for router in _routers():
        # `include_router` would make each of them once more
        app.router.routes.extend(router.routes)
    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's way to replace it
    return app


@cache
def openapi() -> Json:
    """The OpenAPI document of all routes: the same for every application of a process."""
    return describe(TITLE, version("headgate"), _routers())


def _routers() -> list[APIRouter]:
    return [*(module.router for module in ROUTERS), links.signed, trust.public]


async def _fault(request: Request, _: Exception) -> Response:
    return problem_json.of_fault(problem_json.request_id(request))


async def _problem(request: Request, error: Exception) -> Response:
    """Every expected error of routes, routing and validation is answered with a problem."""
    return token_scope.problem(_problem_response(request, error), request)


def _problem_response(request: Request, error: Exception) -> JSONResponse:
    match error:
        case HeadgateError():
            return problem_json.of_error(error, request)
        case HTTPException(status_code=405):
            allow = {"Allow": ", ".join(allowed(openapi(), request.url.path))}
            return problem_json.of_http(HTTPException(405, error.detail, allow), request)
        case HTTPException():
            return problem_json.of_http(error, request)
        case OSError():
            return problem_json.of_outage(error, request)
        case RequestValidationError():
            return problem_json.of_invalid(error.errors(), request)
        case _:
            raise error

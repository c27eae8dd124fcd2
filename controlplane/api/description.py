"""The OpenAPI document: FastAPI's description of the routes, and parts common to all: statuses,
problems, media types.

Answers are described by the types that routes return, when the document is first requested: the API
starts without them, and no answer is validated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import TypedDictSchema

from controlplane.api.auth import EXCHANGE, LINK, PUBLIC, Guarded
from controlplane.api.calls import JsonAnswer
from controlplane.api.problem_json import MEDIA_TYPE
from controlplane.core.records.formats import MEDIA_TYPES
from dataplane.contract.schemas import Json

EXAMPLES = Path(__file__).with_name("examples.json")
"""An answer by method and path, as a test records it (`tests/unit/api/recording.py`)."""
TEXT = {"type": "string"}
PROBLEM: Json = {
    "type": "object",
    "description": "Why a request was not done. `type` names the code of docs/errors.md.",
    "required": ["type", "title", "status", "detail", "request_id", "errors"],
    "additionalProperties": False,
    "properties": {
        "type": {"type": "string", "pattern": "^urn:headgate:[a-z-]+$"},
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "request_id": TEXT,
        "errors": {"type": "array", "items": {"$ref": "#/components/schemas/ProblemDetail"}},
    },
}
QUERY = "/v1/branches/{branch}/query"
# An Idempotency-Key does nothing
WITHOUT_REPEAT = frozenset(
    {
        "/v1/tokens",
        EXCHANGE,
        "/v1/s3/keys",
        "/v1/links",
        "/v1/recipients",
        "/v1/session-links",
        "/v1/branches/{branch}/spark-sessions",
        "/v1/validate",
        "/v1/connections",
        "/v1/tests",
        QUERY,
        f"{QUERY}/promote",
    }
)
WORDS = {
    400: "The body is not JSON.",
    401: "There is no live token.",
    403: "The token does not have the right.",
    404: "Nothing has this name.",
    304: "The content is that of `If-None-Match`.",
    409: "Another request was faster, or the name is taken.",
    410: "What is asked for of the past is not kept any more.",
    412: "It has another revision.",
    413: "The body is too large.",
    422: "A parameter or the body has another shape, or a blueprint has problems.",
    500: "Something is damaged or broke; the log has the reason under the request id.",
    503: "The service cannot answer for now: try again later.",
}
RECORDS = tuple(kind.partition(";")[0] for kind in MEDIA_TYPES.values())
MEDIA = {
    "/metrics": ("text/plain",),
    "/v1/events": ("text/event-stream",),
    "/v1/branches/{branch}/datasets/{dataset}/records": RECORDS,
    "/v1/branches/{branch}/datasets/{dataset}/records.{format}": RECORDS,
    "/v1/branches/{branch}/datasets/{dataset}/changes.{format}": RECORDS[1:],
    LINK: RECORDS,
}


def describe(title: str, version: str, routers: Sequence[APIRouter]) -> Json:
    """The document of the routes of these routers."""
    routes = [route for router in routers for route in router.routes]
    document = get_openapi(title=title, version=version, routes=routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(path, method, operation, schemas)
    schemas["Problem"] = PROBLEM
    _name_permissions(routers, document["paths"])
    _describe_answers(routers, document["paths"], schemas)
    # FastAPI's own shape, which is never sent
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return document


def _name_permissions(routers: Iterable[APIRouter], paths: Json) -> None:
    """Add the permission that a token needs to each route."""
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, Guarded):
            for method in route.methods or ():
                paths[route.path][method.lower()]["x-headgate-permission"] = route.need.permission


class ClosedSchema(GenerateJsonSchema):
    """Answers have these fields and no others; titles that repeat a field's name are left out."""

    def typed_dict_schema(self, schema: TypedDictSchema) -> JsonSchemaValue:
        return {**super().typed_dict_schema(schema), "additionalProperties": False}

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # pydantic names it
        return False


def _describe_answers(routers: Iterable[APIRouter], paths: Json, schemas: Json) -> None:
    """Put the schema of each answer beside the success of its route."""
    route_answers = list(answers(routers))
    described, shared = TypeAdapter.json_schemas(
        [
            (
                f"{route_answer.method} {route_answer.path}",
                "serialization",
                TypeAdapter(route_answer.kind),
            )
            for route_answer in route_answers
        ],
        ref_template="#/components/schemas/{model}",
        schema_generator=ClosedSchema,
    )
    schemas.update(shared["$defs"])
    examples = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    for route_answer in route_answers:
        schema = described[f"{route_answer.method} {route_answer.path}", "serialization"]
        response = paths[route_answer.path][route_answer.method]["responses"][
            str(route_answer.status)
        ]
        content = {"schema": schema}
        if example := examples.get(f"{route_answer.method.upper()} {route_answer.path}"):
            content["example"] = example
        response["content"] = {"application/json": content}


class Described(NamedTuple):
    """The answer of a route that succeeds."""

    method: str
    path: str
    status: int
    kind: Any  # a TypedDict, or a union of some


def answers(routers: Iterable[APIRouter]) -> Iterator[Described]:
    """The answers of all routes that answer with JSON."""
    for route in (route for router in routers for route in router.routes):
        if not isinstance(route, APIRoute):
            continue
        returned = get_type_hints(route.endpoint)["return"]
        if get_origin(returned) is JsonAnswer:
            (kind,) = get_args(returned)
            for method in route.methods or ():
                yield Described(method.lower(), route.path, route.status_code or 200, kind)


def allowed(document: Json, path: str) -> list[str]:
    """All methods of a path: the framework only knows those of the first route that has it."""
    methods = set[str]()
    for template, operations in document["paths"].items():
        if re.fullmatch(re.sub(r"\\{[a-z]+\\}", "[^/]+", re.escape(template)), path):
            methods |= {method.upper() for method in operations}
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


def _complete(path: str, method: str, operation: Json, schemas: Json) -> None:
    responses = operation["responses"]
    if method != "post" or path in WITHOUT_REPEAT:
        parameters = operation.get("parameters", [])
        operation["parameters"] = [p for p in parameters if p["name"] != "idempotency-key"]
    for status in _statuses(path, method, operation):
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        responses[str(status)] = {"description": WORDS[status], "content": content}
    if path in MEDIA:
        responses["200"]["content"] = {kind: {} for kind in MEDIA[path]}
    parameters = {parameter["name"] for parameter in operation.get("parameters", ())}
    if method == "get" and "if-none-match" in parameters:
        responses["304"] = {"description": WORDS[304]}
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schemas.update(content["schema"].pop("$defs", {}))


def _statuses(path: str, method: str, operation: Json) -> set[int]:
    """The statuses that a route may answer beside its success."""
    if path == LINK:
        return {403, 404, 410, 422, 500, 503}
    if path == EXCHANGE:
        return {400, 401, 403, 413, 422, 500, 503}
    if path in PUBLIC:
        return {500, 503} if path == "/readyz" else {500}
    statuses = {401, 403, 422, 500, 503}
    names = {parameter["name"] for parameter in operation.get("parameters", ())}
    if "{" in path or names & {"target", "dataflow", "branch"}:
        statuses.add(404)
    if method != "get":
        statuses |= {404, 409}
    if "requestBody" in operation:
        statuses |= {400, 413}
    if names & {"at", "since"} or path == QUERY:
        statuses.add(410)
    if "consistent" in names:
        statuses.add(409)
    if "if-match" in names:
        statuses.add(412)
    return statuses

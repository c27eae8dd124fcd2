"""One shape for every error: problem+json with a stable code, a request id and a list of
problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from controlplane import logs
from controlplane.core.errors import (
    BadCondition,
    ConflictSide,
    FoundConflict,
    HeadgateError,
    InvalidBlueprint,
    MergeConflict,
    MergeNotReady,
    Problem,
    QueriesBusy,
    QueryRefused,
    problem_text,
)
from controlplane.core.model import branches, shares
from controlplane.core.model.answers import (
    ConflictDetail,
    ConflictVersion,
    ProblemDetail,
    ProblemDocument,
)
from controlplane.core.redaction import redacted
from controlplane.core.rights import ROLE_NAME
from controlplane.http_status import STATUS

MEDIA_TYPE = "application/problem+json"
JSON_TYPE = "application/json"
BUSY_S = 5  # most queries have ended by then
CODES = {
    400: "invalid-request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    500: "internal",
    503: "unavailable",
}
JSON_WORDS = {
    "dataclass_type": "Input should be a valid dictionary or object to extract fields from",
    "tuple_type": "Input should be a valid list",
    "unexpected_keyword_argument": "Extra inputs are not permitted",
}
NAME_WORDS = {
    f"^{branches.NAME}$": "at most 63 lower-case letters, digits, '.', '_' and '-', no sign first",
    f"^{ROLE_NAME}$": "at most 100 lower-case letters, digits, '.', '_' and '-', no sign first",
    f"^{shares.NAME}$": "at most 200 lower-case letters, digits and '_', a letter first",
}
log = logs.get("api")


class RequestRefused(HeadgateError):
    """A request is refused at the edge, before any operation. `code` is one of STATUS."""

    def __init__(self, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code, self.headers = code, dict(headers or {})


def body(
    status: int, code: str, detail: str, request_id: str, errors: Iterable[Problem] = ()
) -> ProblemDocument:
    return {
        "type": f"urn:headgate:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": redacted(detail),
        "request_id": request_id,
        "errors": [_detail(e) for e in errors],
    }


def _detail(problem: Problem) -> ProblemDetail:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "code": problem.code,
        "message": redacted(problem.message),
        "hint": problem.hint,
    }


def request_id(request: Request) -> str:
    return str(request.scope.get("headgate.request_id", ""))


def of_error(error: HeadgateError, request: Request) -> JSONResponse:
    """The answer to an error that has a message for users."""
    status = STATUS.get(error.code, 400)
    problems: Sequence[Problem] = ()
    detail = problem_text(error)
    if isinstance(error, BadCondition | MergeConflict | MergeNotReady | QueryRefused):
        problems = error.problems
    if isinstance(error, InvalidBlueprint):
        problems = error.problems
        detail = (
            f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'}; nothing was stored"
        )
    headers = dict(error.headers) if isinstance(error, RequestRefused) else {}
    if isinstance(error, QueriesBusy):
        headers["Retry-After"] = f"{BUSY_S}"
    value = body(status, error.code, detail, request_id(request), problems)
    if isinstance(error, MergeConflict):
        value["conflicts"] = [_conflict(conflict) for conflict in error.conflicts]
    return JSONResponse(value, status, headers, media_type=MEDIA_TYPE)


def _conflict(conflict: FoundConflict) -> ConflictDetail:
    return {
        "dataflow": conflict.dataflow,
        "component": conflict.component,
        "kind": conflict.kind,
        "base": _version(conflict.base),
        "ours": _version(conflict.ours),
        "theirs": _version(conflict.theirs),
    }


def _version(side: ConflictSide | None) -> ConflictVersion | None:
    if side is None:
        return None
    return {
        "file": side.file,
        "line": side.line,
        "column": side.column,
        "text": redacted(side.text),
    }


def of_http(error: HTTPException, request: Request) -> JSONResponse:
    """The answer where no operation was reached: unknown routes and methods, bodies that are too
    large."""
    code = CODES.get(error.status_code, "invalid-request")
    value = body(error.status_code, code, str(error.detail), request_id(request))
    return JSONResponse(value, error.status_code, error.headers, media_type=MEDIA_TYPE)


def of_outage(error: OSError, request: Request) -> JSONResponse:
    """The answer where the database or a store cannot be reached, or gave a transaction up: try
    again later."""
    log.warning(
        "request failed", path=request.url.path, request_id=request_id(request), reason=str(error)
    )
    words = "the database or the lake does not answer; the log has the reason under this request id"
    value = body(503, "unavailable", words, request_id(request))
    return JSONResponse(value, 503, {"Retry-After": "2"}, media_type=MEDIA_TYPE)


def of_fault(request_id: str) -> JSONResponse:
    """The answer to an unexpected error: no more than the place to look."""
    value = body(
        500, "internal", "something broke; the log has it under this request id", request_id
    )
    return JSONResponse(value, 500, media_type=MEDIA_TYPE)


def of_no_address(request_id: str) -> JSONResponse:
    """The answer to a path that no application has, for any method."""
    return JSONResponse(
        body(404, "not-found", "nothing has this address", request_id), 404, media_type=MEDIA_TYPE
    )


def of_invalid(errors: Sequence[Any], request: Request) -> JSONResponse:
    """A request whose parts have the wrong shape; the values themselves are not repeated."""
    typed = _content_type_problem(errors, request)
    problems = [
        Problem("", 0, 0, "invalid-request", f"{_place(e['loc'])}: {_message(e)}") for e in errors
    ]
    problems = [typed] if typed is not None else problems
    detail = "; ".join(p.message for p in problems[:3])
    value = body(422, "invalid-request", detail, request_id(request), problems)
    return JSONResponse(value, 422, media_type=MEDIA_TYPE)


def _message(error: Mapping[str, Any]) -> str:
    """In words of JSON: a body that is a dataclass is an object, and its tuples are lists."""
    name_words = NAME_WORDS.get(error.get("ctx", {}).get("pattern", ""))
    if name_words is not None:
        return f"a name has {name_words}"
    message: str = JSON_WORDS.get(error["type"], error["msg"])
    return message.replace("Tuple should", "List should")


def _content_type_problem(errors: Sequence[Any], request: Request) -> Problem | None:
    """The problem of a body that is not read as JSON, because its content type is not JSON."""
    content_type = request.headers.get("content-type", "")
    is_json = content_type.partition(";")[0].strip().lower().endswith(("/json", "+json"))
    is_unread = any(tuple(error["loc"]) == ("body",) for error in errors)
    if is_json or not is_unread:
        return None
    return Problem(
        "",
        0,
        0,
        "invalid-request",
        f"body: {wrong_type(content_type, JSON_TYPE)}",
        f"Content-Type: {JSON_TYPE}",
    )


def wrong_type(content_type: str, expected: str) -> str:
    """`given`: the content type of the request, empty where it has none."""
    fault = (
        f"the request says Content-Type: {content_type[:100]}"
        if content_type
        else "the request has no Content-Type"
    )
    return f"{fault}; send Content-Type: {expected}"


def _place(location: Sequence[object]) -> str:
    text = ".".join(map(str, location)) or "body"
    return text[:200].encode("utf-8", "replace").decode()

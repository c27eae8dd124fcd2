"""Refusals in the form of the protocol: `error` with `message`, `type` and `code`."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from controlplane.core.errors import HeadgateError
from controlplane.services.caller_limit import TooManyAtOnce
from controlplane.services.s3.key_scope import OutOfScope

_TYPES = {
    400: "BadRequestException",
    401: "NotAuthorizedException",
    403: "ForbiddenException",
    404: "NotFoundException",
    405: "UnsupportedOperationException",
    413: "BadRequestException",
    429: "SlowDownException",
    501: "UnsupportedOperationException",
    503: "ServiceUnavailableException",
}
NO_NAMESPACE, NO_TABLE = "NoSuchNamespaceException", "NoSuchTableException"
NO_PLAN_TASK = "NoSuchPlanTaskException"
_STATUS = {"not-found": 404, "generation-gone": 404, "too-many-partitions": 400}


class IcebergRefused(Exception):
    """`type`: of the protocol's errors; empty: the usual one of the status."""

    def __init__(self, status: int, message: str, type: str = "") -> None:
        super().__init__(message)
        self.status, self.type = status, type


EXPECTED = (IcebergRefused, HTTPException, HeadgateError, TooManyAtOnce, OSError)


def of(error: Exception) -> Response | None:
    """The answer to an error that was expected; None for any other."""
    match error:
        case IcebergRefused(status=status, type=type):
            return _answer(status, str(error), type)
        case HTTPException(status_code=status):
            return _answer(status, error.detail)
        case OutOfScope():
            return _answer(403, str(error))
        case HeadgateError(code=code) if code in _STATUS:
            return _answer(_STATUS[code], str(error), NO_TABLE if _STATUS[code] == 404 else "")
        case TooManyAtOnce():
            return _answer(429, "this token has too many requests under way; try again later")
        case OSError():
            return _answer(503, "the database or the lake does not answer; try again later")
    return None


def _answer(status: int, message: str, type: str = "") -> Response:
    headers = {401: {"WWW-Authenticate": 'Bearer realm="headgate"'}, 503: {"Retry-After": "2"}}
    error = {
        "message": message,
        "type": type or _TYPES.get(status, "InternalServerError"),
        "code": status,
    }
    return JSONResponse({"error": error}, status, headers.get(status))

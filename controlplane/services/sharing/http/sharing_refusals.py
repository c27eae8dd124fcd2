"""Refusals in the form of the protocol: `errorCode` and `message`."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from controlplane.core.errors import HeadgateError
from controlplane.services.caller_limit import TooManyAtOnce

_CODES = {
    400: "INVALID_PARAMETER_VALUE",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "RESOURCE_DOES_NOT_EXIST",
    405: "METHOD_NOT_ALLOWED",
    413: "MALFORMED_REQUEST",
    429: "REQUEST_LIMIT_EXCEEDED",
    500: "INTERNAL_ERROR",
    503: "TEMPORARILY_UNAVAILABLE",
}
_STATUS = {"not-found": 404, "generation-gone": 400, "invalid-request": 400}


class SharingRefused(Exception):
    """`status` says why, by the codes above."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


EXPECTED = (SharingRefused, HTTPException, HeadgateError, TooManyAtOnce, OSError)


def of(error: Exception) -> Response | None:
    """The answer to an error that was expected; None for any other."""
    match error:
        case SharingRefused(status=status):
            return _answer(status, str(error))
        case HTTPException(status_code=status):
            return _answer(status, error.detail)
        case HeadgateError(code=code) if code in _STATUS:
            return _answer(_STATUS[code], str(error))
        case TooManyAtOnce():
            return _answer(429, "this recipient has too many requests under way; try again later")
        case OSError():
            return _answer(503, "the database or the lake does not answer; try again later")
    return None


def _answer(status: int, message: str) -> Response:
    headers = {401: {"WWW-Authenticate": 'Bearer realm="headgate"'}, 503: {"Retry-After": "2"}}.get(
        status
    )
    return JSONResponse(
        {"errorCode": _CODES.get(status, "INTERNAL_ERROR"), "message": message}, status, headers
    )

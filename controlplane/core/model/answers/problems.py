"""What is wrong, with its place."""

from __future__ import annotations

from typing import Literal, NotRequired

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12


class ProblemDetail(TypedDict):
    """One thing that is wrong. Lines and columns count from 1; 0 where there is no place."""

    file: str
    line: int
    column: int
    code: str
    message: str
    hint: str


class ProblemDocument(TypedDict):
    """Why a request was not done. `type` names the code of docs/errors.md. A proxy's answer has no title and no id."""

    type: str
    title: NotRequired[str]
    status: int
    detail: str
    request_id: NotRequired[str]
    errors: list[ProblemDetail]


class ErrorReport(TypedDict):
    """An error of a task, with its place in the blueprint or in a text that the blueprint names."""

    code: Literal["user-error", "infrastructure-error"]
    condition: str | None
    sqlstate: str | None
    message: str
    file: str | None
    line: int | None
    column: int | None
    log: str | None
    attempt: str | None

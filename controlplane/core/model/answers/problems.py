"""Problems with their places."""

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


class ConflictVersion(TypedDict):
    """What one side of a merge says, and where: lines and columns count from 1."""

    file: str
    line: int
    column: int
    text: str


class ConflictDetail(TypedDict):
    """What both branches changed: a component, a Python file by its path, or the dataflow where
    `component` is empty. A side is null where it has none."""

    dataflow: str
    component: str
    kind: str
    base: ConflictVersion | None
    ours: ConflictVersion | None
    theirs: ConflictVersion | None


class ProblemDocument(TypedDict):
    """Why a request was not done. `type` names the code of docs/errors.md. A proxy's answer has no
    title and no id."""

    type: str
    title: NotRequired[str]
    status: int
    detail: str
    request_id: NotRequired[str]
    errors: list[ProblemDetail]
    conflicts: NotRequired[list[ConflictDetail]]


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

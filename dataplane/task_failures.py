"""How the work of a worker fails in words."""

from __future__ import annotations

import json
import traceback
from typing import Literal

from dataplane.contract.results import TaskError

GONE = "lake-file-gone"
DAMAGED = "lake-file-damaged"
DAMAGED_MADE_AGAIN = (
    "the file is damaged; `headgate fsck --contents --repair` has what is damaged made again"
)
MADE_AGAIN = "the lake has lost it; `headgate fsck --repair` has what is lost made again"


class TaskFailure(Exception):
    """A task cannot be done, for a reason that a user can read. `condition` is stable, like
    Spark's.

    `line` is one of `file`, from 1; `offset` is a place in the SQL that ran.
    """

    def __init__(
        self,
        condition: str,
        message: str,
        kind: Literal["user", "infrastructure"] = "user",
        file: str | None = None,
        offset: int | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.condition, self.message, self.kind = condition, message, kind
        self.file, self.line, self.offset = file, line, offset


def to_driver(failure: TaskFailure) -> RuntimeError:
    """The error to raise in a Python worker of Spark, of which the driver gets the text alone."""
    return RuntimeError(_MARK + json.dumps([failure.condition, failure.message, failure.kind]))


def of_worker(text: str) -> TaskFailure | None:
    """The failure that such a text describes. Users' code may print any text: a text that only
    looks so gives None."""
    _, mark, arguments = text.rpartition(WORKER_FAILURE)
    try:
        return TaskFailure(*json.JSONDecoder().raw_decode(arguments)[0]) if mark else None
    except (ValueError, TypeError):
        return None


_MARK = "TaskFailure of a worker: "
WORKER_FAILURE = f"{RuntimeError.__name__}: {_MARK}"  # what stands before one in a text, as JSON


def error_of(failure: BaseException) -> TaskError:
    """The record of any exception; any other than a TaskFailure is the infrastructure's fault and
    may be tried again."""
    task_failure = failure if isinstance(failure, TaskFailure) else None
    return {
        "kind": task_failure.kind if task_failure else "infrastructure",
        "condition": task_failure.condition if task_failure else type(failure).__name__,
        "sqlstate": None,
        "message": task_failure.message if task_failure else f"{type(failure).__name__}: {failure}",
        "file": task_failure.file if task_failure else None,
        "line": task_failure.line if task_failure else None,
        "column": None,
        "detail": "".join(traceback.format_exception(failure)),
    }

"""One claim while it is worked on: where it may write, how it is stopped, and how one bad task is
found among many."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor as Threads
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from dataplane.contract.claims import DriverClaim, TaskSpec
from dataplane.contract.identity import label_of
from dataplane.contract.results import TaskError
from dataplane.fragments.file_links import LinkedFiles, labels_in
from dataplane.storage.lake import Lake
from dataplane.task_failures import GONE

T = TypeVar("T")
Task = TypeVar("Task", bound=TaskSpec)
C_co = TypeVar("C_co", bound=DriverClaim, covariant=True)  # an attempt is of one kind of task
Explain: TypeAlias = Callable[[BaseException], TaskError]

HINTS = 3  # how often an error's own words decide what is left out of the next try


class Cancelled(Exception):
    """The attempt was fenced: nothing more is to be done for it."""


class Failed(Exception):
    """A task's error, in words already."""

    def __init__(self, error: TaskError) -> None:
        super().__init__(error["message"])
        self.error = error


@dataclass(frozen=True, slots=True)
class Attempt(Generic[C_co]):
    """`scratch` is a temporary folder of this attempt alone; `threads` run things for it that start
    no Spark job."""

    claim: C_co
    lake: Lake
    scratch: Path
    threads: Threads
    cancelled: threading.Event
    _numbers: Iterator[int] = field(default_factory=itertools.count, kw_only=True)
    _renaming: list[Callable[[str], str]] = field(default_factory=list, kw_only=True)

    @property
    def prefix(self) -> str:
        return self.claim["prefix"]

    def links(self) -> LinkedFiles:
        made = LinkedFiles(self.scratch / f"links-{next(self._numbers)}")
        self.rename(made.renamed)
        return made

    def rename(self, renamed: Callable[[str], str]) -> None:
        """Texts are to go through this before users see them."""
        self._renaming.append(renamed)

    def renamed(self, text: str) -> str:
        """A text, such as an error's, with the paths of files in place of those of links."""
        return reduce(lambda message, renamed: renamed(message), self._renaming, text)

    def staging(self) -> str:
        """A folder for one job's output; hidden from listings of fragments."""
        return f"{self.prefix}/_job-{next(self._numbers)}"

    def check(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled(self.claim["attempt"])


def task_label(task: TaskSpec) -> str:
    return label_of(bytes.fromhex(task["task"]))


def isolate(
    attempt: Attempt[DriverClaim],
    tasks: Sequence[Task],
    work: Callable[[Sequence[Task]], Mapping[str, T]],
    explain: Explain,
    hints: int = HINTS,
) -> dict[str, T | TaskError]:
    """Outcomes by label of `work` over all tasks at once, or over fewer until only the bad ones
    fail.

    Tasks that an error names are tried apart first; where that does not help, halves are.
    """
    attempt.check()
    try:
        return dict(work(tasks))
    except Exception as e:  # noqa: BLE001  # any failure is the outcome of a task
        attempt.check()
        error, named = _error_of(e, explain), labels_in(str(e)) if hints else frozenset()
    if len(tasks) == 1 or (error["kind"] == "infrastructure" and error["condition"] != GONE):
        return {task_label(t): error for t in tasks}
    parts = [[t for t in tasks if (task_label(t) in named) == suspect] for suspect in (True, False)]
    if not all(parts):
        parts = [list(tasks[: len(tasks) // 2]), list(tasks[len(tasks) // 2 :])]
    return {
        k: v for part in parts for k, v in isolate(attempt, part, work, explain, hints - 1).items()
    }


def _error_of(error: BaseException, explain: Explain) -> TaskError:
    return error.error if isinstance(error, Failed) else explain(error)

"""What compares the rows of committed files, outside of this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from controlplane.core.errors import NotCompared
from controlplane.core.model.answers.data_diff import RowDifference
from dataplane.contract.schemas import Schema


@dataclass(frozen=True, slots=True)
class ComparedFiles:
    """Files of both sides as paths in the lake, the schema under which both are read, and the
    columns of a key, if any. `column`: pairs that are shown differ in it; empty: in any."""

    before: Sequence[str]
    after: Sequence[str]
    schema: Schema
    key: Sequence[str]
    column: str = ""


class CompareRows(Protocol):
    def __call__(self, files: ComparedFiles, *, timeout_s: float) -> RowDifference:
        """Waits for a turn and for the answer, both within the time. Raises NotCompared where that,
        the memory or the disk is not enough, and where a file cannot be read."""


def no_comparison(files: ComparedFiles, *, timeout_s: float) -> RowDifference:  # noqa: ARG001
    """Where no process can be started for it."""
    raise NotCompared("this service does not compare rows")

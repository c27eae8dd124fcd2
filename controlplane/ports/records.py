"""What renders the rows of committed files, outside of this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from controlplane.core.records.formats import Coding, Compression, Format
from dataplane.contract.predicates import Condition
from dataplane.contract.schemas import Schema


@dataclass(frozen=True, slots=True)
class Rendering:
    """A form, and how it is compressed: within (`compression`), or all of its bytes (`coding`)."""

    format: Format
    compression: Compression | None = None
    coding: Coding = ""


@dataclass(frozen=True, slots=True)
class WantedRows:
    """Files as paths in the lake, the schema under which they are read, and the selection of their
    rows: these columns, the rows whose condition is true, and of these `limit` behind the first
    `offset`. `cell_bytes`: of a value that is only shown, after which it is cut; None where rows
    are whole."""

    files: Sequence[str]
    schema: Schema
    columns: Sequence[str]
    where: Condition | None
    offset: int
    limit: int | None
    rendering: Rendering
    cell_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """Files of both sides as paths in the lake, and the schema under which both are read. These
    columns of the rows whose condition is true are compared: a row that one side has more often
    than the other is reported once for each excess, with `generation` beside it."""

    before: Sequence[str]
    after: Sequence[str]
    schema: Schema
    columns: Sequence[str]
    where: Condition | None
    generation: int
    rendering: Rendering


class RenderRecords(Protocol):
    def __call__(self, selection: WantedRows) -> Iterator[bytes]:
        """The body piece by piece; the next one is made on demand, and closing ends all. OSError,
        after some pieces perhaps, where a file cannot be read."""


class RenderChanges(Protocol):
    def __call__(self, selection: RequestedChanges) -> Iterator[bytes]:
        """As `RenderRecords`. Raises NotCompared before the first piece where telling takes more
        time, memory or disk than there is, and where a file cannot be read."""


def no_changes(selection: RequestedChanges) -> Iterator[bytes]:  # noqa: ARG001
    """Where no process can be started for it."""
    return iter(())

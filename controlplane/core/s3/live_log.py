"""The Delta log of a dataset in a branch, which moves: each generation is a version of its number.
Pure.

    00000000000000000000.json             a table without rows
    00000000000000000001.json             generation 1, and so on: the difference from the generation before
    00000000000000000020.checkpoint...    where the log begins, once there are more: all of generation 20
    _last_checkpoint                      the number at which it begins

A reader that has a version finds the next one under the next number. The beginning moves on by
whole steps, so that a reader which has found it goes on with the same files for a while, and so
that few checkpoints are made. Does not belong here: comparing trees, and making Parquet of a
checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from controlplane.core.model.branches import Branch
from controlplane.core.model.states import State
from controlplane.core.s3 import delta_actions
from controlplane.core.s3.delta_actions import TableFile
from dataplane.contract import delta_log
from dataplane.contract.delta_log import LOG, commit_body
from dataplane.contract.schemas import Json, Schema

FOLDER = f"{LOG}/"
HINT = f"{FOLDER}{delta_log.HINT}"
STEPS = ((10_000, 20), (20_000, 10), (100_000, 2))  # up to so many partitions, and 1 above


@dataclass(frozen=True, slots=True)
class LiveTable:
    """One dataset in one branch. `created`: when the branch was made, in milliseconds since
    1970."""

    id: str
    created: int

    @staticmethod
    def of(branch: Branch, dataset: str) -> LiveTable:
        """Another one in another branch, also of the same name."""
        digits = sha256(f"{branch.name} {branch.at} {dataset}".encode()).hexdigest()
        return LiveTable(delta_actions.table_id(digits), int(branch.at * 1000))


def begin(newest: int, partitions: int) -> int:
    """The version that the log of this newest one begins with. It has one to two steps, and these
    are shorter where a commit may change many partitions: all of a log is made when it is
    listed."""
    step = next((step for most, step in STEPS if partitions <= most), 1)
    return max((newest // step - 1) * step, 0)


def commit_file(version: int) -> str:
    return FOLDER + delta_log.commit_name(version)


def checkpoint_file(version: int) -> str:
    return FOLDER + delta_log.checkpoint_name(version)


def commit_of(name: str) -> int | None:
    """The version that this file would commit."""
    return _version_in(name, commit_file)


def checkpoint_of(name: str) -> int | None:
    """The version that this file would hold."""
    return _version_in(name, checkpoint_file)


def _version_in(name: str, file_of: Callable[[int], str]) -> int | None:
    version = delta_log.version_in(name.removeprefix(FOLDER))
    return version if version is not None and file_of(version) == name else None


def empty(table: LiveTable, first: State) -> bytes:
    """Version 0, before the first generation."""
    milliseconds = int(first.at * 1000)
    return commit_body([*_head(table, first.schema), delta_actions.commit_info(milliseconds)])


class LogDifference(NamedTuple):
    """Files that a generation no longer has, and those that it has got."""

    removed: Iterable[TableFile]
    added: Iterable[TableFile]


def commit(
    table: LiveTable, before: Schema, after: State, rows: LogDifference, layout: LogDifference
) -> bytes:
    """One generation after another. `before`: the schema until then. `layout`: files with the rows
    of the files that they replace."""
    return commit_body(_commit(table, before, after, rows, layout))


def _commit(
    table: LiveTable, before: Schema, after: State, rows: LogDifference, layout: LogDifference
) -> Iterator[Json]:
    milliseconds = int(after.at * 1000)
    if before != after.schema:
        yield from _head(table, after.schema)
    for files, is_change in ((rows, True), (layout, False)):
        for part in files.removed:
            yield delta_actions.remove(part, milliseconds, is_change=is_change)
        for part in files.added:
            yield delta_actions.add(part, milliseconds, is_change=is_change)
    yield delta_actions.commit_info(milliseconds)


def checkpoint_body(table: LiveTable, state: State, parts: Iterable[TableFile]) -> bytes:
    """All that a checkpoint of a generation is to hold, as a commit. `parts`: all files of the
    state."""
    milliseconds = int(state.at * 1000)
    adds = (delta_actions.add(part, milliseconds) for part in parts)
    return commit_body(action for some in (_head(table, state.schema), adds) for action in some)


def hint(version: int, actions: int) -> bytes:
    """`actions`: how many the checkpoint holds."""
    return json.dumps({"version": version, "size": actions}).encode()


def _head(table: LiveTable, schema: Schema) -> list[Json]:
    return [delta_actions.protocol(schema), delta_actions.metadata(table.id, schema, table.created)]

"""Rows that were added to a dataset and removed from it between two generations. Changes nothing.

Only files of partitions that differ are read. A partition whose rows are in another one now has
moved, and is not read either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from controlplane.core.errors import NotCompared
from controlplane.core.model.addresses import Point
from controlplane.core.model.states import State
from controlplane.core.records import pruning, requested_columns, where
from controlplane.core.schema.common import CommonColumns, common_columns
from controlplane.core.schema.ddl_schemas import struct, types
from controlplane.core.tree import EMPTY_ROOT, Entry
from controlplane.operations import known_fragments
from controlplane.operations.context import Context
from controlplane.operations.inspect import data_diff
from controlplane.operations.inspect.time_travel import state_of
from controlplane.ports.records import Rendering, RequestedChanges
from controlplane.ports.store import Tx
from dataplane.contract.encoding import digest
from dataplane.contract.identity import schema_id
from dataplane.contract.predicates import Condition
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema, column_names

COLUMNS = ("_change_type", "_generation")  # beside those of the dataset


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """A request for changed rows. `columns`: all where it is empty; `where`: a condition as text.
    Rows are compared by these columns only: a difference in another column is no change."""

    columns: tuple[str, ...] = ()
    where: str | None = None


ALL_ROWS = ChangesRequest()


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Changes from generation `since` (0: from nothing) to `until`. `content`: a digest of all that
    decides the answer. `selection` is None where the caller has the answer already."""

    since: int
    until: int
    content: bytes
    selection: RequestedChanges | None


def changes(
    ctx: Context,
    branch: str,
    name: str,
    since: Point | None,
    until: Point | None,
    rendering: Rendering,
    *,
    request: ChangesRequest = ALL_ROWS,
    is_known: Callable[[bytes], bool] = lambda _: False,
) -> RowChanges:
    """`since` None: from nothing, so that all rows are added; `until` None: to the newest
    generation.

    Raises NotFound, GenerationGone with the oldest that is kept, BadCondition, BadColumns, and
    NotCompared where the one is not before the other, or a column cannot be read as both have it.
    """
    with ctx.read() as tx:
        after = state_of(tx, branch, name, until)
        before = None if since is None else state_of(tx, branch, name, since)
        first = 0 if before is None else before.generation
        if first > after.generation:
            raise NotCompared(
                f"generation {first} of {name} came after generation {after.generation}; swap them"
            )
        schema = _schema(name, before, after)
        chosen = requested_columns.chosen(schema, request.columns)
        condition = None if request.where is None else where.parse(request.where, schema)
        root = EMPTY_ROOT if before is None else before.root
        content = digest(
            "changes/2",
            before=root,
            after=after.root,
            schema=schema_id(schema),
            generation=after.generation,
            wish={"columns": list(chosen), "where": request.where},
        )
        if is_known(content):
            return RowChanges(first, after.generation, content, None)
        partitions = data_diff.changes_of(tx, before, after)
        is_read = partial(_is_read, condition, schema)
        files_before = _files(tx, (c.before for c in partitions if c.reads_before), is_read)
        other = _files(tx, (c.after for c in partitions if c.reads_after), is_read)
    wanted_changes = RequestedChanges(
        files_before,
        other,
        schema,
        columns=chosen,
        where=condition,
        generation=after.generation,
        rendering=rendering,
    )
    return RowChanges(first, after.generation, content, wanted_changes)


def _files(
    tx: Tx, entries: Iterable[Entry | None], is_read: Callable[[FileEntry], bool]
) -> tuple[str, ...]:
    present = [entry for entry in entries if entry is not None]
    fragments = known_fragments.of(tx, present)
    return tuple(
        file["path"]
        for entry in present
        for file in fragments[entry.fragment].files
        if is_read(file)
    )


def _is_read(condition: Condition | None, schema: Schema, file: FileEntry) -> bool:
    """Whether it may hold a row of which the condition is true."""
    return condition is None or pruning.may_match(condition, pruning.of_file(file, schema))


def _schema(name: str, before: State | None, after: State) -> Schema:
    """The columns of now, of types that hold the values of both: rows of before are read as those
    of now."""
    if reserved := [column for column in COLUMNS if column in column_names(after.schema)]:
        raise NotCompared(
            f"{name} has a column {reserved[0]}, which changes are told by; read its records"
        )
    if before is None:
        return after.schema
    common = common_columns(before.schema, after.schema)
    _check(name, before, common)
    held = types(common.schema)
    return struct((column, held.get(column, kind)) for column, kind in types(after.schema).items())


def _check(name: str, before: State, common: CommonColumns) -> None:
    for column in common.retyped:
        if column.held is None:
            was = f"column {column.name} of {name} was {column.before} in generation {before.generation}"
            raise NotCompared(f"{was} and is {column.after}; read all rows, by since=0")

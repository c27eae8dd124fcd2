"""Records of one committed generation: the files that hold the requested rows. Changes nothing.

A file is skipped unopened where its statistics, or its partition's key, rule out all of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice

from controlplane.core import tree
from controlplane.core.errors import NotFound
from controlplane.core.model.addresses import Point
from controlplane.core.model.roll_ups import file_batches
from controlplane.core.model.states import State
from controlplane.core.partitioning import named
from controlplane.core.records import pruning, requested_columns, where
from controlplane.core.records.pruning import PartitionKeyPart
from controlplane.core.tree import Entry
from controlplane.operations import known_fragments
from controlplane.operations.context import Context
from controlplane.operations.inspect.time_travel import state_of
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.records import Rendering, WantedRows
from controlplane.ports.store import Tx
from dataplane.contract.encoding import digest
from dataplane.contract.identity import schema_id
from dataplane.contract.predicates import Condition
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema

FIRST_PARTITIONS = 1_000  # that are looked at for first rows: most have some
SHOWN_BYTES = 1 << 20  # of the rows of a page
# Of a value: at most, and however many columns there are
SHOWN_CELL_BYTES, SHOWN_LEAST = 10_000, 20
BATCH = 1_000  # fragments that are looked up at a time


@dataclass(frozen=True, slots=True)
class RecordsRequest:
    """A request for a dataset's records. `columns`: all where it is empty; `where`: a condition as
    text."""

    partition: str | None = None
    columns: tuple[str, ...] = ()
    where: str | None = None
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The rows to read of one generation. `content`: a digest of all that decides the rows, so that
    equal ones have equal bytes; `rows`: of the generation or partition, not of the request."""

    generation: int
    content: bytes
    rows: int
    selection: WantedRows


@dataclass(frozen=True, slots=True)
class UnchangedRecords:
    """The caller has these rows already."""

    generation: int
    content: bytes


def records(
    ctx: Context,
    branch: str,
    name: str,
    request: RecordsRequest,
    rendering: Rendering,
    *,
    point: Point | None = None,
    is_known: Callable[[bytes], bool] = lambda _: False,
) -> RowSelection | UnchangedRecords:
    """Rows of a committed generation, in the order of partition keys. Where the caller has the
    content, nothing but the state is read. Raises NotFound, GenerationGone, BadCondition,
    BadColumns."""
    with ctx.read() as tx:
        state = state_of(tx, branch, name, point, sees=ctx.sees)
        chosen = requested_columns.chosen(state.schema, request.columns)
        condition = None if request.where is None else where.parse(request.where, state.schema)
        root, entries = state.root, list[Entry]()
        if request.partition is not None:
            entries = list(tree.lookup(tx.nodes, state.root, [request.partition]).values())
            if not entries:
                raise NotFound(f"dataset {name} has no partition {request.partition!r}")
            root = entries[0].fragment
        content = _content(root, state.schema, request)
        if is_known(content):
            return UnchangedRecords(state.generation, content)
        if request.partition is None:
            entries = list(tree.scan(tx.nodes, state.root))
        rows = sum(entry.content.rows for entry in entries)
        matching = _matching_entries(ctx, tx, branch, state, condition, entries)
        files, offset = _part(_files(tx, matching, condition, state.schema), condition, request)
    wanted_rows = WantedRows(
        files,
        state.schema,
        chosen,
        where=condition,
        offset=offset,
        limit=request.limit,
        rendering=rendering,
    )
    return RowSelection(state.generation, content, rows, wanted_rows)


def first(ctx: Context, branch: str, name: str, rows: int) -> RowSelection:
    """The first rows of the newest generation, as JSON. The partitions behind those that hold them
    are not read, however many there are. Raises NotFound."""
    with ctx.read() as tx:
        state = state_of(tx, branch, name, sees=ctx.sees)
        entries, row_count = list[Entry](), 0
        for entry in islice(tree.scan(tx.nodes, state.root), FIRST_PARTITIONS):
            if row_count >= rows:
                break
            if entry.content.rows:
                entries.append(entry)
                row_count += entry.content.rows
        files = tuple(file["path"] for file in _files(tx, entries, None, state.schema))
    wanted_rows = WantedRows(
        files,
        state.schema,
        requested_columns.chosen(state.schema, ()),
        where=None,
        offset=0,
        limit=rows,
        rendering=Rendering("json"),
    )
    content = _content(state.root, state.schema, RecordsRequest(limit=rows))
    return RowSelection(state.generation, content, row_count, shown(wanted_rows, rows))


def shown(wanted_rows: WantedRows, rows: int) -> WantedRows:
    """The first rows as a page shows them: long values are cut, so that all of them have a bound of
    bytes."""
    cells = max(1, rows * len(wanted_rows.columns))
    return replace(
        wanted_rows,
        limit=rows,
        cell_bytes=max(SHOWN_LEAST, min(SHOWN_CELL_BYTES, SHOWN_BYTES // cells)),
    )


def _content(root: bytes, schema: Schema, request: RecordsRequest) -> bytes:
    return digest(
        "records/2",
        root=root,
        schema=schema_id(schema),
        wish={**asdict(request), "columns": list(request.columns)},
    )


def _matching_entries(
    ctx: Context,
    tx: Tx,
    branch: str,
    state: State,
    condition: Condition | None,
    entries: Sequence[Entry],
) -> Iterable[Entry]:
    """Partitions whose keys do not rule out all of their rows."""
    parts = key_parts(ctx, tx, branch, state) if condition is not None and len(entries) > 1 else ()
    if condition is None or not parts:
        return entries
    bounds_of_key = pruning.of_keys(parts, state.schema)
    return [e for e in entries if pruning.may_match(condition, bounds_of_key(e.key))]


def key_parts(ctx: Context, tx: Tx, branch: str, state: State) -> tuple[PartitionKeyPart, ...]:
    """The columns that a state's keys constrain. Empty where they constrain none, or where other
    code may have made the state."""
    node = desired(tx, branch, namespace=ctx.namespace).nodes.get(state.dataset)
    if node is None or not node.is_transform or node.output or not node.has_made(state.logic):
        return ()
    parts = []
    for part in node.key:
        column = named(state.schema, part.column, case_sensitive=node.is_case_sensitive)
        if column is None:
            return ()
        granule = pruning.BUCKET if part.buckets else part.granule
        parts.append(PartitionKeyPart(part.column, column, granule))
    return tuple(parts)


def _files(
    tx: Tx, entries: Iterable[Entry], condition: Condition | None, schema: Schema
) -> Iterator[FileEntry]:
    """Files that may hold a row that is wanted, in order of keys."""
    for batch in file_batches(entries, BATCH):
        fragments = known_fragments.of(tx, batch)
        for entry in batch:
            for file in fragments[entry.fragment].files:
                if condition is None or pruning.may_match(condition, pruning.of_file(file, schema)):
                    yield file


def _part(
    files: Iterator[FileEntry], condition: Condition | None, request: RecordsRequest
) -> tuple[tuple[str, ...], int]:
    """The files that hold the rows behind the offset, up to the limit; and the rows to pass over in
    them. With a condition these are all files: how many rows match is unknown before they are
    read."""
    if condition is not None:
        return tuple(file["path"] for file in files), request.offset
    paths, offset, ahead = list[str](), request.offset, 0
    for file in files:
        if request.limit is not None and ahead >= offset + request.limit:
            break
        if not paths and file["rows"] <= offset:
            offset -= file["rows"]
            continue
        paths.append(file["path"])
        ahead += file["rows"]
    return tuple(paths), offset

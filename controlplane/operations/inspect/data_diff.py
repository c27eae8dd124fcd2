"""How the data of one dataset differ between branches or generations: columns, partitions, rows.
Changes nothing.

Only files of partitions that differ are read, by `CompareRows`, after the transaction has ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, TypeAlias

from controlplane.core import tree
from controlplane.core.errors import NotCompared, NotFound
from controlplane.core.model.addresses import Point
from controlplane.core.model.answers.data_diff import (
    ColumnsDifference,
    DataDifference,
    DataSide,
    PartitionDifference,
    RowDifference,
)
from controlplane.core.model.states import State
from controlplane.core.partition_diff import PartitionChange, partition_changes
from controlplane.core.schema.common import CommonColumns, common_columns
from controlplane.operations import known_fragments
from controlplane.operations.context import Context
from controlplane.operations.inspect import time_travel
from controlplane.operations.inspect.json_views import instant
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.row_diff import ComparedFiles, CompareRows
from controlplane.ports.store import Tx

Kind: TypeAlias = Literal["added", "removed", "changed", "equal"]
RECENT = 50  # states of each side among which two of the same inputs are looked for
MOST_ROWS = 500_000_000  # of both sides
MOST_BYTES = 100_000_000_000  # of the files of both sides
NO_ROWS: RowDifference = {
    "added": 0,
    "removed": 0,
    "equal": 0,
    "samples": {"added": [], "removed": []},
    "by_key": None,
    "left_out": [],
}


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """A request for a difference: a page of partitions after a key, or one partition; rows, if
    `timeout_s` is not None. `key`: the columns by which rows are paired; by default those that the
    dataset expects to be unique. `column`: pairs that are shown differ in it; empty: in any."""

    after: str | None = None
    limit: int = 100
    partition: str | None = None
    timeout_s: float | None = None
    key: tuple[str, ...] = ()
    column: str = ""


@dataclass(frozen=True, slots=True)
class _Sides:
    """Two states of a dataset, not both None, and the branches of the request."""

    one: str
    other: str
    before: State | None
    after: State | None


def of_branches(
    ctx: Context,
    compare: CompareRows,
    first_branch: str,
    other: str,
    dataset: str,
    request: DiffRequest,
) -> DataDifference:
    """From `one` to `other`, at the newest states of both that were made from the same sources,
    where there are such.

    Raises NotFound where neither has the dataset, and NotCompared where rows cannot be compared.
    """
    with ctx.read() as tx:
        before, after = (
            tx.states.newest(branch, [dataset]).get(dataset) for branch in (first_branch, other)
        )
        if before is None and after is None:
            raise NotFound(
                f"dataset {dataset} has no committed data in {first_branch} or in {other}"
            )
        sides = _Sides(first_branch, other, *comparable(tx, first_branch, other, before, after))
        difference, files = _difference(ctx, tx, dataset, sides, request)
    return _with_rows(difference, files, compare, request)


def of_points(
    ctx: Context,
    compare: CompareRows,
    branch: str,
    dataset: str,
    first_point: Point | None,
    other: Point | None,
    request: DiffRequest,
) -> DataDifference:
    """From one generation or time to another, by default the newest. Raises NotFound,
    GenerationGone, NotCompared."""
    with ctx.read() as tx:
        before, after = (
            time_travel.state_of(tx, branch, dataset, point) for point in (first_point, other)
        )
        difference, files = _difference(
            ctx, tx, dataset, _Sides(branch, branch, before, after), request
        )
    return _with_rows(difference, files, compare, request)


def comparable(
    tx: Tx, branch: str, other: str, before: State | None, after: State | None
) -> tuple[State | None, State | None]:
    """Among the newest states in two branches, or recent ones of the same logic, the newest that
    were made from the same sources; the newest of all where no such are kept. Arrivals on one side
    alone are then no difference."""
    if before is None or after is None or before.cut == after.cut:
        return before, after
    by_cut = {_cut(state): state for state in reversed(list(_recent(tx, branch, before)))}
    for state in _recent(tx, other, after):
        if (state_before := by_cut.get(_cut(state))) is not None:
            return state_before, state
    return before, after


def _cut(state: State) -> tuple[tuple[str, bytes], ...]:
    return tuple(sorted(state.cut.items()))


def _recent(tx: Tx, branch: str, newest: State) -> Iterator[State]:
    """States that a branch sees and that the same code made, newest first."""
    states = tx.states.history(branch, newest.dataset, RECENT)
    return (state for state in states if state.lineage == newest.lineage)


def changes_of(tx: Tx, state_before: State | None, other: State | None) -> list[PartitionChange]:
    """Partitions that differ, in order of their keys."""
    before, after = (
        tree.EMPTY_ROOT if state is None else state.root for state in (state_before, other)
    )
    return [] if before == after else partition_changes(tree.diff(tx.nodes, before, after))


def _difference(
    ctx: Context, tx: Tx, dataset: str, sides: _Sides, request: DiffRequest
) -> tuple[DataDifference, ComparedFiles | None]:
    """The difference, and the files to read in order to find the rows that differ."""
    before, after = sides.before, sides.after
    changes = changes_of(tx, before, after)
    if request.partition is not None:
        changes = [change for change in changes if change.key == request.partition]
    columns = _columns(before, after)
    later = (change for change in changes if request.after is None or change.key > request.after)
    page = list(islice(later, request.limit + 1))
    kinds = [change.kind for change in changes]
    answer: DataDifference = {
        "dataset": dataset,
        "one": _side(sides.one, before),
        "other": _side(sides.other, after),
        "state": _state(before, after, is_equal=not changes and not _differ(columns)),
        "same_inputs": before is not None and after is not None and before.cut == after.cut,
        "columns": _columns_difference(columns),
        "added": kinds.count("added"),
        "removed": kinds.count("removed"),
        "changed": kinds.count("changed"),
        "moved": kinds.count("moved"),
        "rows": (after.rows if after else 0) - (before.rows if before else 0),
        "partitions": [_partition(change) for change in page[: request.limit]],
        "row_changes": None,
        "next": page[request.limit - 1].key if len(page) > request.limit else None,
    }
    if request.timeout_s is None:
        return answer, None
    key = request.key or unique_columns(ctx, tx, sides.other, dataset, columns)
    return answer, _files(tx, dataset, changes, columns, replace(request, key=key))


def unique_columns(
    ctx: Context, tx: Tx, branch: str, dataset: str, columns: CommonColumns
) -> tuple[str, ...]:
    """The columns of the first `unique` of a dataset that both sides have; else none."""
    node = desired(tx, branch, namespace=ctx.namespace).nodes.get(dataset)
    if node is None:
        return ()
    shared_names = {field["name"] for field in columns.schema["fields"]}
    keys = (expectation.unique for expectation in node.component.expect)
    return next((key for key in keys if key and shared_names.issuperset(key)), ())


def _state(before: State | None, after: State | None, *, is_equal: bool) -> Kind:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    return "equal" if is_equal else "changed"


def _columns(before: State | None, after: State | None) -> CommonColumns:
    """A side without data has the columns of the other one."""
    first, other = before or after, after or before
    assert first is not None
    assert other is not None
    return common_columns(first.schema, other.schema)


def _differ(columns: CommonColumns) -> bool:
    return bool(columns.added or columns.removed or columns.retyped)


def _files(
    tx: Tx,
    dataset: str,
    changes: list[PartitionChange],
    columns: CommonColumns,
    request: DiffRequest,
) -> ComparedFiles:
    shared_names = [field["name"] for field in columns.schema["fields"]]
    if unknown := [name for name in request.key if name not in shared_names]:
        raise NotCompared(
            f"{dataset} has no column {', '.join(unknown)} on both sides; they share {', '.join(shared_names)}"
        )
    before = [c.before for c in changes if c.before is not None and c.reads_before]
    after = [c.after for c in changes if c.after is not None and c.reads_after]
    rows = sum(entry.content.rows for entry in (*before, *after))
    if rows > MOST_ROWS:
        raise NotCompared(
            f"{rows:,} rows are in partitions that differ, more than {MOST_ROWS:,}; compare one partition"
        )
    fragments = known_fragments.of(tx, (*before, *after))
    files_before, other = (
        [file for entry in entries for file in fragments[entry.fragment].files]
        for entries in (before, after)
    )
    size_bytes = sum(file["size"] for file in (*files_before, *other))
    if size_bytes > MOST_BYTES:
        raise NotCompared(
            f"files of {size_bytes:,} bytes are in partitions that differ, more than"
            f" {MOST_BYTES:,}; compare one partition"
        )
    return ComparedFiles(
        [file["path"] for file in files_before],
        [file["path"] for file in other],
        columns.schema,
        request.key,
        request.column,
    )


def _with_rows(
    difference: DataDifference,
    files: ComparedFiles | None,
    compare: CompareRows,
    request: DiffRequest,
) -> DataDifference:
    if files is None or request.timeout_s is None:
        return difference
    if not files.before and not files.after:
        return {**difference, "row_changes": NO_ROWS}
    return {**difference, "row_changes": compare(files, timeout_s=request.timeout_s)}


def _side(branch: str, state: State | None) -> DataSide:
    if state is None:
        return {"branch": branch, "generation": None, "at": None, "partitions": 0, "rows": 0}
    return {
        "branch": branch,
        "generation": state.generation,
        "at": instant(state.at),
        "partitions": state.partitions,
        "rows": state.rows,
    }


def _columns_difference(columns: CommonColumns) -> ColumnsDifference:
    return {
        "added": list(columns.added),
        "removed": list(columns.removed),
        "changed": [
            {"name": c.name, "before": c.before, "after": c.after, "compared_as": c.held}
            for c in columns.retyped
        ],
    }


def _partition(change: PartitionChange) -> PartitionDifference:
    return {
        "partition": change.key,
        "state": change.kind,
        "source": change.source,
        "before": None if change.before is None else change.before.content.rows,
        "after": None if change.after is None else change.after.content.rows,
    }

"""How the data of one dataset differ between two branches or generations."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.json_values import JsonObject


class DataSide(TypedDict):
    """A committed state; all but the branch is None where the dataset has none."""

    branch: str
    generation: int | None
    at: str | None
    partitions: int
    rows: int


class PartitionDifference(TypedDict):
    """One partition that differs. `source`: where its rows were before, if they were in another
    partition; it has `moved` where nothing else happened to it. `before` and `after` count its
    rows; None where it is not there."""

    partition: str
    state: Literal["added", "removed", "changed", "moved"]
    source: str | None
    before: int | None
    after: int | None


class ColumnTypes(TypedDict):
    """A column whose type differs. `compared_as`: the type that holds both, None where values are
    not compared."""

    name: str
    before: str
    after: str
    compared_as: str | None


class ColumnsDifference(TypedDict):
    """Columns that one side lacks, or has under another type. Rows are compared without them."""

    added: list[str]
    removed: list[str]
    changed: list[ColumnTypes]


class RowPair(TypedDict):
    """Two rows of one key, with the columns that differ. `row`: all columns, as they are after."""

    key: JsonObject
    row: JsonObject
    before: JsonObject
    after: JsonObject


class RowSamples(TypedDict):
    """Rows that one side has more often than the other; values longer than 1,000 characters are
    cut."""

    added: list[JsonObject]
    removed: list[JsonObject]


class KeyDifference(TypedDict):
    """Rows that a key identifies. `is_inferred`: the key is made of the columns that did not
    change, and only rows that differ are matched. `columns`: how many of the matched rows differ
    there; `equal_columns` counts the others. `ambiguous` counts keys that one side has more than
    once: their rows are not matched. `unpaired`: rows that are in no pair."""

    key: list[str]
    is_inferred: bool
    matched: int
    changed: int
    added: int
    removed: int
    ambiguous: int
    columns: dict[str, int]
    equal_columns: int
    samples: list[RowPair]
    unpaired: RowSamples


class RowDifference(TypedDict):
    """Rows of partitions that differ, as multisets. `equal` counts those that both sides have.
    `left_out`: columns of types that cannot be compared."""

    added: int
    removed: int
    equal: int
    samples: RowSamples
    by_key: KeyDifference | None
    left_out: list[str]


class DataDifference(TypedDict):
    """How a dataset differs, from the first to the second. The numbers are of all partitions,
    `partitions` is a page of them, and `next` the `after` of the next page. `same_inputs`: whether
    both were made from the same sources. `row_changes` is None unless rows were requested; `rows`
    counts from the first to the second."""

    dataset: str
    one: DataSide
    other: DataSide
    state: Literal["added", "removed", "changed", "equal"]
    same_inputs: bool
    columns: ColumnsDifference
    added: int
    removed: int
    changed: int
    moved: int
    rows: int
    partitions: list[PartitionDifference]
    row_changes: RowDifference | None
    next: str | None

"""Answers about profiles. Field names are the API's."""

from __future__ import annotations

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

from controlplane.core.model.json_values import JsonValue

# estimated: of all rows, within 2 %
Basis: TypeAlias = Literal["exact", "estimated", "sampled", "unknown"]
# Dates and times as ISO 8601, decimals as texts
ProfileValue: TypeAlias = int | float | str | bool | None


class ProfileSample(TypedDict):
    """Rows that were drawn by chance, each with the same chance, out of `of` rows."""

    rows: int
    of: int


class TopValue(TypedDict):
    value: ProfileValue
    share: float  # of all rows, NULLs among them
    rows: int  # about as many, where it is of a sample


class Histogram(TypedDict):
    """`counts` has one number for each pair of neighbours among `edges`: rows of the sample."""

    edges: list[ProfileValue]
    counts: list[int]


class Lengths(TypedDict):
    """Of texts in characters, of binary values in bytes, of lists and maps in entries."""

    min: int
    mean: float
    max: int


class ColumnValues(TypedDict):
    """What rows hold: for who may read rows."""

    min: ProfileValue
    max: ProfileValue
    bounds: Basis
    mean: float | None
    deviation: float | None
    quartiles: list[ProfileValue]
    top: list[TopValue]
    histogram: Histogram | None
    lengths: Lengths | None
    nan: float  # the share of NaN


class ColumnProfile(TypedDict):
    """`nulls`, and `distinct` values, with what they are based on."""

    name: str
    type: JsonValue  # Spark's JSON of a type
    nulls: int | None
    null_share: float | None
    nulls_basis: Basis
    distinct: int | None
    distinct_basis: Basis
    values: NotRequired[ColumnValues]


class ProfileAnswer(TypedDict):
    """`unprofiled_rows`: of partitions of which nothing is known, or that were not looked at this
    time: then `is_partial`, and the next look goes on. `values_need`: the permission that it takes
    to see values."""

    dataset: str
    generation: int
    partition: str | None
    partitions: int
    rows: int
    unprofiled_rows: int
    is_partial: bool
    sample: ProfileSample
    columns: list[ColumnProfile]
    values_need: str | None


class ProfilePoint(TypedDict):
    """A column in one generation. Without `data`, `mean` is None."""

    generation: int
    at: str
    rows: int
    null_share: float | None
    distinct: int | None
    mean: float | None
    moved: list[str]  # in words, against the generation before


class ColumnHistory(TypedDict):
    name: str
    points: list[ProfilePoint]


class ProfileHistoryAnswer(TypedDict):
    dataset: str
    is_partial: bool
    columns: list[ColumnHistory]

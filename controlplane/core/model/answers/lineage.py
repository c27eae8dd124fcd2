"""Where a dataset comes from, and what depends on it. Part of `answers`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

Direction: TypeAlias = Literal["upstream", "downstream"]
LineageKind: TypeAlias = Literal["read", "sql", "python", "write"]
LineageOrigin: TypeAlias = Literal["spark", "sqlglot", "declared", "assumed"]
LineageStep: TypeAlias = Literal[
    "IDENTITY",
    "TRANSFORMATION",
    "AGGREGATION",
    "FILTER",
    "JOIN",
    "GROUP_BY",
    "SORT",
    "WINDOW",
    "CONDITIONAL",
]


class ColumnLink(TypedDict):
    """A column, and one that it comes of, with OpenLineage's words for how. `column`: None for the
    rows of the dataset: which there are, or in which order. `of_column`: None for all rows of that
    dataset."""

    dataset: str
    column: str | None
    of_dataset: str
    of_column: str | None
    steps: list[LineageStep]


class LineageComponent(TypedDict):
    """A component on the way. `by`: who says so; `assumed` where neither Spark nor sqlglot can
    decide. `over_reported`: where more columns are named than are read, and why; empty where all is
    exact."""

    dataset: str
    kind: LineageKind
    by: LineageOrigin
    location: str | None
    over_reported: list[str]


class LineagePartitions(TypedDict):
    """Partitions of a dataset on the way: the first of `count`. `mode`: how they are read, or
    `subject`. `whole`: they are all that it has. `generation`: None where the state is not kept any
    more, and the way ends there."""

    dataset: str
    mode: str
    generation: int | None
    revision: int | None
    partitions: list[str]
    count: int
    whole: bool


class LineageObjects(TypedDict):
    """Source objects behind partitions of a read component, as its last listing has them: the first
    of those of `partitions` partitions. `changed`: partitions whose objects are others by now."""

    dataset: str
    location: str
    objects: list[str]
    partitions: int
    shown: int
    changed: int


class ColumnTransformation(TypedDict):
    type: Literal["DIRECT", "INDIRECT"]
    subtype: LineageStep


class FacetInput(TypedDict):
    namespace: str
    name: str
    field: str
    transformations: list[ColumnTransformation]


class FacetField(TypedDict):
    inputFields: list[FacetInput]


class ColumnLineageFacet(TypedDict):
    """OpenLineage's ColumnLineageDatasetFacet."""

    _producer: str
    _schemaURL: str
    fields: dict[str, FacetField]
    dataset: list[FacetInput]


class Provenance(TypedDict):
    """About the generation that is shown: the revision of its code and who applied it, and of a
    partition the attempt that wrote it. `versions`: of Spark, Python and Headgate, where the
    attempt's manifest is still there."""

    generation: int
    at: str
    revision: int
    actor: str | None
    logic: str
    attempt: str | None
    versions: dict[str, str] | None


class LineageAnswer(TypedDict):
    """`links`: nearest first; `more`: how many there are beside them. `facet`: of the dataset
    itself, over its inputs. `notes`: what holds for another time than the requested one."""

    dataset: str
    partition: str | None
    columns: list[str]
    direction: Direction
    provenance: Provenance | None
    components: list[LineageComponent]
    links: list[ColumnLink]
    more: int
    partitions: list[LineagePartitions]
    objects: list[LineageObjects]
    facet: ColumnLineageFacet
    notes: list[str]

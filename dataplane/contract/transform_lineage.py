"""Column lineage of one transform, in the form of OpenLineage's column-lineage facet, and how it is
put together.

An input is named as the transform's code names it: equal code over equal schemas has one lineage,
with any datasets that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypedDict

Direct: TypeAlias = Literal["IDENTITY", "TRANSFORMATION", "AGGREGATION"]
Indirect: TypeAlias = Literal["FILTER", "JOIN", "GROUP_BY", "SORT", "WINDOW", "CONDITIONAL"]
Subtype: TypeAlias = Direct | Indirect
Origin: TypeAlias = tuple[str, str]  # an input, and a column of it

# The weaker first
DIRECT: Final[tuple[Subtype, ...]] = ("IDENTITY", "TRANSFORMATION", "AGGREGATION")
INDIRECT: Final[tuple[Subtype, ...]] = (
    "CONDITIONAL",
    "FILTER",
    "GROUP_BY",
    "JOIN",
    "SORT",
    "WINDOW",
)
EVERY: Final = "*"  # in place of a column: all of the input's
# Of all columns of a result, one by one: plans read the memos that hold them
MOST_ORIGINS: Final = 5_000


class Transformation(TypedDict):
    type: Literal["DIRECT", "INDIRECT"]
    subtype: Subtype


class InputField(TypedDict):
    """A column of an input, or EVERY, and what it takes part in."""

    name: str
    field: str
    transformations: list[Transformation]


class OutputField(TypedDict):
    inputFields: list[InputField]


class ColumnLineage(TypedDict):
    """`dataset`: columns that decide which rows there are, or in which order. `over_reported`:
    where more is reported to be read than is, and why; empty where the lineage is exact."""

    fields: dict[str, OutputField]
    dataset: list[InputField]
    over_reported: list[str]


@dataclass(frozen=True, slots=True)
class Value:
    """What a value is made of. `members`: of a struct that is made from parts, each part by
    itself."""

    origins: Mapping[Origin, frozenset[Subtype]] = field(default_factory=dict)
    members: Mapping[str, Value] = field(default_factory=dict)

    def through(self, step: Subtype) -> Value:
        """The same after one more step."""
        if step == "IDENTITY":
            return self
        return Value(
            {
                o: frozenset(after(step, subtype) for subtype in steps)
                for o, steps in self.origins.items()
            }
        )


NOTHING: Final = Value()


def after(step: Subtype, before: Subtype) -> Subtype:
    """One step upon another: an indirect one stays so, and of two direct ones the stronger
    counts."""
    if step in INDIRECT:
        return step
    if before in INDIRECT:
        return before
    return max(step, before, key=DIRECT.index)


def merged(values: Iterable[Value]) -> Value:
    """What several values are made of together."""
    origins: dict[Origin, frozenset[Subtype]] = {}
    for value in values:
        for origin, steps in value.origins.items():
            origins[origin] = origins.get(origin, frozenset()) | steps
    return Value(origins)


def all_columns(inputs: Iterable[str], step: Subtype = "TRANSFORMATION") -> Value:
    """All columns of these inputs."""
    return Value({(name, EVERY): frozenset({step}) for name in inputs})


@dataclass(slots=True)
class Tracing:
    """The results of tracing beside the columns themselves."""

    decides: dict[Origin, set[Subtype]] = field(default_factory=dict)
    over_reported: set[str] = field(default_factory=set)

    def note(self, step: Indirect, values: Iterable[Value]) -> None:
        """These values decide which rows there are, or in which order."""
        for value in values:
            for origin in value.origins:
                self.decides.setdefault(origin, set()).add(step)

    def lineage(self, columns: Mapping[str, Value]) -> ColumnLineage:
        """The lineage of a result with these columns."""
        if sum(len(value.origins) for value in columns.values()) > MOST_ORIGINS:
            self.over_reported.add(
                f"its columns come of more than {MOST_ORIGINS} columns in all: whole inputs are named"
            )
            columns = {name: _by_input(value) for name, value in columns.items()}
        decides = Value({origin: frozenset(steps) for origin, steps in self.decides.items()})
        return {
            "fields": {
                name: {"inputFields": input_fields(value)} for name, value in columns.items()
            },
            "dataset": input_fields(decides),
            "over_reported": sorted(self.over_reported),
        }


def _by_input(value: Value) -> Value:
    origins: dict[Origin, frozenset[Subtype]] = {}
    for (name, _), steps in value.origins.items():
        origins[name, EVERY] = origins.get((name, EVERY), frozenset()) | steps
    return Value(origins)


def input_fields(value: Value) -> list[InputField]:
    """In order of their names."""
    return [
        {
            "name": name,
            "field": column,
            "transformations": [transformation(step) for step in sorted(steps)],
        }
        for (name, column), steps in sorted(value.origins.items())
    ]


def transformation(step: Subtype) -> Transformation:
    return {"type": "DIRECT" if step in DIRECT else "INDIRECT", "subtype": step}


def all_of_all(columns: Iterable[str], inputs: Iterable[str], why: str) -> ColumnLineage:
    """The lineage of an unreadable query: each column of the result comes from all columns of all
    inputs."""
    tracing = Tracing(over_reported={why})
    everything = all_columns(inputs)
    return tracing.lineage(dict.fromkeys(columns, everything))

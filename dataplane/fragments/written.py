"""Fragments as values: as they were stored, and as they were measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from dataplane.contract.identity import Content
from dataplane.contract.profiles import ColumnCounts, Profile
from dataplane.contract.results import FileEntry, Metrics
from dataplane.contract.schemas import Schema

if TYPE_CHECKING:
    from dataplane.fragments.dictionaries import Dictionary


@dataclass(frozen=True, slots=True)
class Written:
    """A task's fragment as it was stored: its files, with their sizes, if it has any row. Canonical
    schema."""

    schema: Schema
    files: Mapping[str, int] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    taken_out: Written | None = None  # the second fragment of the task
    observed: Content | None = None  # of the rows that the writer took, where it is known


@dataclass(frozen=True, slots=True)
class Partitioned:
    """A task's stored fragments, one for each key that its rows have; by label."""

    schema: Schema
    keys: Mapping[str, str]
    written: Mapping[str, Written]
    metrics: Metrics = field(default_factory=Metrics)


Stored: TypeAlias = Written | Partitioned


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """A stored file as its footer describes it; by column, counts and dictionaries."""

    entry: FileEntry
    columns: dict[str, ColumnCounts]
    dictionaries: Mapping[str, tuple[Dictionary, ...] | None]


@dataclass(frozen=True, slots=True)
class MeasuredFragment:
    """A fragment as its files are: measured, not remembered."""

    schema: Schema
    files: tuple[FileEntry, ...]
    content: Content
    metrics: Metrics
    taken_out: MeasuredFragment | None = None
    profile: Profile | None = None  # None: none was requested


def by_schema(written: Mapping[str, Written]) -> Iterator[tuple[Schema, list[str]]]:
    """Labels of fragments that have the same columns."""
    groups: dict[str, list[str]] = {}
    for label, fragment in written.items():
        groups.setdefault(str(fragment.schema), []).append(label)
    for labels in groups.values():
        yield written[labels[0]].schema, labels

"""Rows of fragments in the order that a job asks for, so that statistics of files and row groups
separate them."""

from __future__ import annotations

from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from dataplane.contract.jobs import FragmentJob, PackJob
from dataplane.contract.results import LABEL
from dataplane.fragments.content import quoted

Sorted: TypeAlias = FragmentJob | PackJob  # may say how rows are sorted


def clustered(rows: DataFrame, job: Sorted) -> DataFrame:
    """One fragment's rows: where it has several files, each holds a range of its own."""
    columns = _columns(rows, job)
    return rows.sort(*map(F.col, columns)) if columns else rows


def clustered_within(rows: DataFrame, job: Sorted) -> DataFrame:
    """Rows of many fragments, each with its label, sorted within each file of a fragment. No
    shuffle."""
    columns = _columns(rows, job)
    return rows.sortWithinPartitions(LABEL, *map(F.col, columns)) if columns else rows


def gathered(rows: DataFrame, job: Sorted, into: int) -> DataFrame:
    """Rows of many files as those of a few, each with a range of its own where the job has an
    order."""
    columns = [F.col(name) for name in _columns(rows, job)]
    if not columns:
        return rows.coalesce(into)
    parted = rows.repartitionByRange(into, *columns) if into > 1 else rows.coalesce(1)
    return parted.sortWithinPartitions(*columns)


def _columns(rows: DataFrame, job: Sorted) -> list[str]:
    """Those of the columns that these rows have: source files may lack some."""
    have = set(rows.columns)
    return [quoted(name) for name in job.get("sort_by", ()) if name in have]

"""Memos: answers that are remembered under the key of the question. The key determines the kind of
a memo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from controlplane.core.model.answers import ConnectionFound
from controlplane.core.model.check_results import CheckFinding, CheckResult
from dataplane.contract.identity import Content
from dataplane.contract.results import FootersAnswer, IndexAnswer, Misread, SchemaAnswer, TaskAnswer
from dataplane.contract.schemas import Schema
from dataplane.contract.transform_lineage import ColumnLineage

# Of a task; of a check over many partitions; of rows that tasks dropped, by check; of the tasks of
# a run (hex); of the checks of a generation, by name.
Memo: TypeAlias = (
    TaskAnswer | CheckFinding | Mapping[str, int] | list[str] | Mapping[str, CheckResult]
)
Memos: TypeAlias = Mapping[bytes, Memo]


def schema_in(memo: Memo) -> Schema | None:
    """The schema in the memo of an inference or analysis; None where the analysis found none."""
    return cast("SchemaAnswer", memo)["schema"]


def lineage_in(memo: Memo) -> ColumnLineage | None:
    """The lineage in the memo of an analysis; None where the analysis found none, or is older than
    this field."""
    return cast("SchemaAnswer", memo).get("lineage")


def is_together_in(memo: Memo) -> bool:
    """Whether the analysis proved that tasks of several keys may be run as one."""
    return cast("SchemaAnswer", memo).get("together", False)


def known_schema_in(memo: Memo) -> Schema:
    """The schema in the memo of an inference, or of the analysis of a query: both always have
    one."""
    schema = schema_in(memo)
    assert schema is not None
    return schema


def misread_in(memo: Memo) -> list[Misread]:
    """From the memo of a footers task: columns that an earlier version may have misread."""
    return cast("FootersAnswer", memo)["misread"]


def contents_in(memo: Memo) -> list[tuple[str, Content]]:
    """From the memo of an index task: the content of the rows with each key."""
    return [(key, Content(*content)) for key, content in cast("IndexAnswer", memo)["keys"].items()]


def check_answer_in(memo: Memo) -> CheckFinding:
    """The answer of a check, over one partition or many."""
    return cast("CheckFinding", memo)


def dropped_in(memo: Memo) -> Mapping[str, int]:
    """How many rows a task left out, by the id of the check."""
    return cast("Mapping[str, int]", memo)


def run_in(memo: Memo) -> list[bytes]:
    """The tasks that were computed together with one, after it."""
    return [bytes.fromhex(key) for key in cast("list[str]", memo)]


def results_in(memo: Memo) -> Mapping[str, CheckResult]:
    """The results of the checks of one generation, by name."""
    return cast("Mapping[str, CheckResult]", memo)


def connection_in(memo: Memo) -> ConnectionFound:
    """The result of a connection test."""
    return cast("ConnectionFound", memo)

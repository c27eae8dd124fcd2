"""Memos: answers that are remembered under the key of the question. The key tells which kind a memo is of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from controlplane.core.model.answers import ConnectionFound
from controlplane.core.model.check_results import CheckFinding, CheckResult
from dataplane.contract.identity import Content
from dataplane.contract.lineage import ColumnLineage
from dataplane.contract.results import FootersAnswer, IndexAnswer, Misread, SchemaAnswer, TaskAnswer
from dataplane.contract.schemas import Schema

# Of a task; of a check over many partitions; of rows that tasks dropped, by check; of the tasks of a run (hex); of the
# checks of a generation, by name.
Memo: TypeAlias = TaskAnswer | CheckFinding | Mapping[str, int] | list[str] | Mapping[str, CheckResult]
Memos: TypeAlias = Mapping[bytes, Memo]


def schema_in(memo: Memo) -> Schema | None:
    """Of an inference or analysis; None where the analysis could not tell it."""
    return cast("SchemaAnswer", memo)["schema"]


def lineage_in(memo: Memo) -> ColumnLineage | None:
    """Of an analysis; None where it was made before analyses told it, or could not tell it."""
    return cast("SchemaAnswer", memo).get("lineage")


def known_schema_in(memo: Memo) -> Schema:
    """Of an inference, or of the analysis of a query: both can always tell it."""
    schema = schema_in(memo)
    assert schema is not None
    return schema


def misread_in(memo: Memo) -> list[Misread]:
    """Of a look at footers: what an earlier version may have misread."""
    return cast("FootersAnswer", memo)["misread"]


def contents_in(memo: Memo) -> list[tuple[str, Content]]:
    """Of an index: the content of the rows with each key."""
    return [(key, Content(*content)) for key, content in cast("IndexAnswer", memo)["keys"].items()]


def check_answer_in(memo: Memo) -> CheckFinding:
    """Of a check, over one partition or many."""
    return cast("CheckFinding", memo)


def dropped_in(memo: Memo) -> Mapping[str, int]:
    """How many rows a task left out, by the id of the check."""
    return cast("Mapping[str, int]", memo)


def run_in(memo: Memo) -> list[bytes]:
    """The tasks that were computed together with one, after it."""
    return [bytes.fromhex(key) for key in cast("list[str]", memo)]


def results_in(memo: Memo) -> Mapping[str, CheckResult]:
    """Of the checks of one generation, by name."""
    return cast("Mapping[str, CheckResult]", memo)


def connection_in(memo: Memo) -> ConnectionFound:
    """Of a try of a place."""
    return cast("ConnectionFound", memo)

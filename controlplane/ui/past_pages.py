"""Pages of one dataset's parts and past: a partition, how two generations differ, going back to an
earlier one."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, cast

from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.errors import NotCompared, NotFound
from controlplane.core.explain.listed_causes import listed_causes
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers import DataDifference, GenerationEntry, SparkSchema, WhyAnswer
from controlplane.core.model.answers.data_diff import RowDifference
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.model.tasks import TaskState
from controlplane.operations.inspect import (
    audit,
    causes,
    components,
    data_diff,
    datasets,
    hidden,
    records,
    tasks,
)
from controlplane.operations.inspect.hidden import visible
from controlplane.operations.inspect.records import RecordsRequest
from controlplane.operations.inspect.trends import GENERATIONS
from controlplane.ports.records import Rendering, WantedRows
from controlplane.ui.actions import LONGEST_KEY
from controlplane.ui.names import number_of
from controlplane.ui.page import Page, both, dataset_of
from controlplane.ui.page_request import PageRequest
from controlplane.ui.page_types import RecordsShown
from controlplane.ui.rows_pages import NUMBERS, ROWS
from controlplane.ui.session_rights import may

COMPARED_S = 30.0
COLUMNS = 20  # of rows that differ


class PartitionPage(TypedDict):
    """A partition of the newest generation. `tasks`: how many it has, by their states. `rows`,
    `schema`: None where it is not committed yet. `files`: where its rows lie, relative to the lake.
    `records`: None where the token may not see rows, and where there are none."""

    dataset: str
    partition: str
    generation: int
    tasks: dict[TaskState, int]
    rows: int | None
    schema: SparkSchema | None
    files: list[str]
    why: WhyAnswer
    records: RecordsShown | None


class DataComparePage(TypedDict):
    """`difference`: None where there are no two generations. `refused`: why rows were not
    compared. `columns`: the first ones of rows that differ: changed ones, then keys, then others."""

    dataset: str
    generations: list[GenerationEntry]
    difference: DataDifference | None
    columns: list[str]
    refused: str | None


class RollbackPage(TypedDict):
    """`now`: the present generation. `readers`: what reads the dataset, and follows it."""

    dataset: str
    now: int
    to: GenerationEntry
    readers: list[str]


def _key(page_request: PageRequest) -> str:
    return page_request.request.query_params.get("key", "")[:LONGEST_KEY]


def _partition(page_request: PageRequest) -> PartitionPage:
    name, key = dataset_of(page_request), _key(page_request)
    counts = tasks.counts_of(page_request.context, page_request.branch, name, key)
    committed = _committed(page_request, name, key, or_none=bool(counts))
    why = visible(
        page_request.context, causes.why(page_request.context, page_request.branch, name, key)
    )
    page: PartitionPage = {
        "dataset": name,
        "partition": key,
        "generation": why["generation"],
        "tasks": counts,
        "rows": None,
        "schema": None,
        "files": [],
        "why": why,
        "records": None,
    }
    if committed is not None:
        page["generation"], page["rows"] = committed.generation, committed.rows
        page["schema"] = cast("SparkSchema", committed.selection.schema)
        page["files"] = [
            hidden.words(page_request.context, path) for path in committed.selection.files
        ]
        if may(page_request.token, "data"):
            page["records"] = _records(
                page_request, name, key, committed.generation, committed.selection
            )
    return page


def _committed(
    page_request: PageRequest, name: str, key: str, *, or_none: bool
) -> records.RowSelection | None:
    """Raises NotFound for a partition that is not committed, unless there may be none."""
    try:
        committed = records.records(
            page_request.context, page_request.branch, name, RecordsRequest(key), Rendering("json")
        )
    except NotFound:
        if or_none:
            return None
        raise
    assert isinstance(committed, records.RowSelection)
    return committed


def _records(
    page_request: PageRequest, name: str, key: str, generation: int, rows: WantedRows
) -> RecordsShown:
    what: JsonObject = {"generation": generation, "partition": key, "limit": ROWS}
    audit.note_read(page_request.context, "page", page_request.branch, name, what)
    try:
        text = b"".join(page_request.services.render(records.shown(rows, ROWS)))
        return {"items": cast("list[dict[str, JsonValue]]", json.loads(text)), "problem": None}
    except (OSError, ValueError):
        return {"items": [], "problem": "these rows cannot be read now: the log says why"}


def _with_states(page_request: PageRequest, page: PartitionPage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"causes_found": list(listed_causes(page["why"]["tree"])), "numbers": NUMBERS}


def _compared(page_request: PageRequest) -> DataComparePage:
    """Compares the last two generations by default."""
    name = dataset_of(page_request)
    generations = _generations(page_request, name)
    page: DataComparePage = {
        "dataset": name,
        "generations": generations,
        "difference": None,
        "columns": [],
        "refused": None,
    }
    numbers = [entry["generation"] for entry in generations]
    other = number_of(page_request.query("b")) or next(iter(numbers), None)
    base = number_of(page_request.query("a")) or next(
        (n for n in numbers if other is not None and n < other), None
    )
    if base is None or other is None:
        return page
    with_rows = page_request.query("rows") == "yes" and may(page_request.token, "data")
    try:
        difference = _difference(page_request, name, base, other, COMPARED_S if with_rows else None)
    except NotCompared as error:
        page["refused"] = str(error)
        difference = _difference(page_request, name, base, other, None)
    rows = difference["row_changes"]
    page["difference"] = difference
    page["columns"] = [] if rows is None else shown_columns(rows)[:COLUMNS]
    return page


def shown_columns(rows: RowDifference) -> list[str]:
    """Columns of rows that differ, in the order of a table: changed ones first, then the key."""
    by_key, samples = rows["by_key"], [*rows["samples"]["added"], *rows["samples"]["removed"]]
    every = list(samples[0]) if samples else []
    if by_key is None:
        return every
    changed = sorted(by_key["columns"], key=lambda name: -by_key["columns"][name])
    return list(dict.fromkeys([*changed, *by_key["key"], *every]))


def _generations(page_request: PageRequest, name: str) -> list[GenerationEntry]:
    """The last ones first."""
    answer = datasets.history(
        page_request.context, page_request.branch, name, before=None, limit=GENERATIONS
    )
    return visible(page_request.context, answer)["items"]


def _difference(
    page_request: PageRequest, name: str, base: int, other: int, timeout_s: float | None
) -> DataDifference:
    if timeout_s is not None:
        audit.note_read(
            page_request.context,
            "rows-diff",
            page_request.branch,
            name,
            {"one": base, "other": other},
        )
    diff_request = data_diff.DiffRequest(
        after=page_request.query("after") or None,
        timeout_s=timeout_s,
        column=page_request.query("column"),
    )
    return data_diff.of_points(
        page_request.context,
        page_request.services.compare,
        page_request.branch,
        dataset=name,
        first_point=Generation(base),
        other=Generation(other),
        request=diff_request,
    )


def _rows_requested(page_request: PageRequest, page: DataComparePage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {
        "may_rows": may(page_request.token, "data"),
        "with_rows": page_request.query("rows") == "yes",
    }


def _rollback(page_request: PageRequest) -> RollbackPage:
    name, number = dataset_of(page_request), number_of(page_request.query("to"))
    generations = _generations(page_request, name)
    to = next((entry for entry in generations if entry["generation"] == number), None)
    if to is None:
        raise NotFound(
            f"no such generation of {name} is kept, or it is too long ago to be chosen here"
        )
    near = components.of_branch(page_request.context, page_request.branch).around(name)
    readers = [
        edge["target"]
        for edge in near["edges"]
        if edge["source"] == name and edge["target"] != name
    ]
    return {"dataset": name, "now": generations[0]["generation"], "to": to, "readers": readers}


def _why_command(page_request: PageRequest) -> str:
    return "headgate why " + shlex.quote(f"{dataset_of(page_request)}/{_key(page_request)}")


def _diff_command(page_request: PageRequest) -> str:
    name, base, other = (
        dataset_of(page_request),
        number_of(page_request.query("a")),
        number_of(page_request.query("b")),
    )
    return f"headgate diff {name}{f'@{base}' if base else ''}" + (
        f" {name}@{other}" if other else ""
    )


def _rollback_command(page_request: PageRequest) -> str:
    return f"headgate rollback {dataset_of(page_request)} --to {number_of(page_request.query('to')) or 'GENERATION'}"


def _target(page_request: PageRequest, page: object) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"target": dataset_of(page_request)}


PARTITION = Page("partition.html", _partition, _with_states, _why_command)
COMPARE = Page("generations.html", _compared, _rows_requested, _diff_command)
ROLLBACK = Page("rollback.html", _rollback, _target, _rollback_command)
ROUTES: list[Route] = [
    *both("/datasets/{name}/partition", PARTITION),
    *both("/datasets/{name}/compare", COMPARE),
    *both("/datasets/{name}/rollback", ROLLBACK),
]

"""Pages of one dataset's parts and past: a partition, how two generations differ, going back to an earlier one.

Does not belong here: the dataset as a whole (`pages`), what a page is (`page`).
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, cast

from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.errors import NotCompared, NotFound
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers import DataDifference, GenerationEntry, SparkSchema, WhyAnswer
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.model.tasks import TaskState
from controlplane.operations.inspect import audit, causes, components, data_diff, datasets, hidden, records, tasks
from controlplane.operations.inspect.hidden import seen
from controlplane.operations.inspect.records import RecordsWish
from controlplane.ports.records import Rendering, WantedRows
from controlplane.ui.actions import LONGEST_KEY
from controlplane.ui.asking import Asking
from controlplane.ui.names import number_of
from controlplane.ui.page import Page, both, dataset_of
from controlplane.ui.pages import NUMBERS, told_causes
from controlplane.ui.rights import may
from controlplane.ui.values import RecordsShown
from controlplane.ui.views import GENERATIONS, RECORDS

COMPARED_S = 30.0


class PartitionPage(TypedDict):
    """A partition of the newest generation. `tasks`: how many it has, by their states. `rows`, `schema`: None
    where it is not committed yet. `files`: where its rows lie, relative to the lake. `records`: None where the
    token may not see rows, and where there are none."""

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
    """`difference`: None where there are no two generations. `refused`: why rows were not compared."""

    dataset: str
    generations: list[GenerationEntry]
    difference: DataDifference | None
    refused: str | None


class RollbackPage(TypedDict):
    """`now`: the present generation. `readers`: what reads the dataset, and follows it."""

    dataset: str
    now: int
    to: GenerationEntry
    readers: list[str]


def _key(asked: Asking) -> str:
    return asked.request.query_params.get("key", "")[:LONGEST_KEY]


def _partition(asked: Asking) -> PartitionPage:
    name, key = dataset_of(asked), _key(asked)
    counts = tasks.counts_of(asked.context, asked.branch, name, key)
    found = _committed(asked, name, key, or_none=bool(counts))
    why = seen(asked.context, causes.why(asked.context, asked.branch, name, key))
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
    if found is not None:
        page["generation"], page["rows"] = found.generation, found.rows
        page["schema"] = cast("SparkSchema", found.wanted.schema)
        page["files"] = [hidden.words(asked.context, path) for path in found.wanted.files]
        if may(asked.token, "data"):
            page["records"] = _records(asked, name, key, found.generation, found.wanted)
    return page


def _committed(asked: Asking, name: str, key: str, *, or_none: bool) -> records.Records | None:
    """Raises NotFound for a partition that is not committed, unless there may be none."""
    try:
        found = records.records(asked.context, asked.branch, name, RecordsWish(key), Rendering("json"))
    except NotFound:
        if or_none:
            return None
        raise
    assert isinstance(found, records.Records)
    return found


def _records(asked: Asking, name: str, key: str, generation: int, wanted: WantedRows) -> RecordsShown:
    what: JsonObject = {"generation": generation, "partition": key, "limit": RECORDS}
    audit.note_read(asked.context, "page", asked.branch, name, what)
    try:
        text = b"".join(asked.services.render(records.shown(wanted, RECORDS)))
        return {"items": cast("list[dict[str, JsonValue]]", json.loads(text)), "problem": None}
    except (OSError, ValueError):
        return {"items": [], "problem": "these rows cannot be read now: the log says why"}


def _told(asked: Asking, page: PartitionPage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"causes_found": list(told_causes(page["why"]["tree"])), "numbers": NUMBERS}


def _compared(asked: Asking) -> DataComparePage:
    """Of the last two generations by default."""
    name = dataset_of(asked)
    known = _generations(asked, name)
    page: DataComparePage = {"dataset": name, "generations": known, "difference": None, "refused": None}
    numbers = [entry["generation"] for entry in known]
    other = number_of(asked.query("b")) or next(iter(numbers), None)
    one = number_of(asked.query("a")) or next((n for n in numbers if other is not None and n < other), None)
    if one is None or other is None:
        return page
    with_rows = asked.query("rows") == "yes" and may(asked.token, "data")
    try:
        page["difference"] = _difference(asked, name, one, other, COMPARED_S if with_rows else None)
    except NotCompared as error:
        page["refused"] = str(error)
        page["difference"] = _difference(asked, name, one, other, None)
    return page


def _generations(asked: Asking, name: str) -> list[GenerationEntry]:
    """The last ones first."""
    found = datasets.history(asked.context, asked.branch, name, before=None, limit=GENERATIONS)
    return seen(asked.context, found)["items"]


def _difference(asked: Asking, name: str, one: int, other: int, timeout_s: float | None) -> DataDifference:
    if timeout_s is not None:
        audit.note_read(asked.context, "rows-diff", asked.branch, name, {"one": one, "other": other})
    wish = data_diff.Wish(after=asked.query("after") or None, timeout_s=timeout_s)
    return data_diff.of_points(
        asked.context,
        asked.services.compare,
        asked.branch,
        dataset=name,
        first_point=Generation(one),
        other=Generation(other),
        wish=wish,
    )


def _rows_asked(asked: Asking, page: DataComparePage) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"may_rows": may(asked.token, "data"), "with_rows": asked.query("rows") == "yes"}


def _rollback(asked: Asking) -> RollbackPage:
    name, number = dataset_of(asked), number_of(asked.query("to"))
    known = _generations(asked, name)
    to = next((entry for entry in known if entry["generation"] == number), None)
    if to is None:
        raise NotFound(f"no such generation of {name} is kept, or it is too long ago to be chosen here")
    near = components.whole(asked.context, asked.branch).around(name)
    readers = [edge["target"] for edge in near["edges"] if edge["source"] == name and edge["target"] != name]
    return {"dataset": name, "now": known[0]["generation"], "to": to, "readers": readers}


def _why_command(asked: Asking) -> str:
    return "headgate why " + shlex.quote(f"{dataset_of(asked)}/{_key(asked)}")


def _diff_command(asked: Asking) -> str:
    name, one, other = dataset_of(asked), number_of(asked.query("a")), number_of(asked.query("b"))
    return f"headgate diff {name}{f'@{one}' if one else ''}" + (f" {name}@{other}" if other else "")


def _rollback_command(asked: Asking) -> str:
    return f"headgate rollback {dataset_of(asked)} --to {number_of(asked.query('to')) or 'GENERATION'}"


def _target(asked: Asking, page: object) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"target": dataset_of(asked)}


PARTITION = Page("partition.html", _partition, _told, _why_command)
COMPARE = Page("generations.html", _compared, _rows_asked, _diff_command)
ROLLBACK = Page("rollback.html", _rollback, _target, _rollback_command)
ROUTES: list[Route] = [
    *both("/datasets/{name}/partition", PARTITION),
    *both("/datasets/{name}/compare", COMPARE),
    *both("/datasets/{name}/rollback", ROLLBACK),
]

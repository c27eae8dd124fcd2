"""The content of each page: values put together from operations. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast

from typing_extensions import TypeIs

from controlplane.core.errors import NotFound
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers import (
    DataDifference,
    DataflowStatus,
    DatasetAnswer,
    DatasetFreshness,
    State,
    StatusAnswer,
    TargetStatus,
)
from controlplane.core.model.answers.components import DataflowText
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.operations.explore import partition_times, partitions, waves
from controlplane.operations.inspect import (
    causes,
    check_history,
    components,
    data_diff,
    dataset_facts,
    datasets,
    json_views,
    lineage,
    open_problems,
    overview,
    past_texts,
    trends,
    work_under_way,
)
from controlplane.operations.inspect.components import BranchComponents
from controlplane.operations.inspect.hidden import visible
from controlplane.operations.inspect.lineage import LineageRequest
from controlplane.ports.row_diff import no_comparison
from controlplane.ui import moments, ranges, time_axis
from controlplane.ui.page_types import (
    BlueprintPage,
    ColumnsDrawn,
    DatasetPage,
    FlowPage,
    FlowsPage,
    FlowSummary,
    HomePage,
    KeysPage,
)
from controlplane.ui.ranges import KeysWithin

DatasetPart: TypeAlias = Literal["why", "near", "code", "history", "partitions", "checks"]

WORST_FIRST: tuple[State, ...] = (
    "failed",
    "blocked",
    "waiting",
    "building",
    "stale",
    "paused",
    "held",
    "up_to_date",
)
WAVES = 6
HISTORY_READS = 24  # tree nodes for counts of changes: of the 100 of a page
REVISIONS = 20
CHANGED = 1_000  # partitions that are outlined
FAILED = 10  # partitions that are named
WORK = 400  # partitions that failed, or have work to do, that are marked
WORDS: Mapping[str, str] = {
    "dataset": "a table that a component of a dataflow makes, in partitions",
    "export": "a dataset kept equal in another place, by a component with `write`",
    "generation": "a committed version of a dataset; readers see whole generations only",
    "partition": "a part of a dataset that is computed by itself, such as a file or a day",
    "wave": "one cause, as a file or an edit, with all commits that followed from it",
    "run": "the work of a wave: its tasks and their attempts",
    "reused": "a result that was computed before and is taken as it is; nothing runs",
    "each": "the mode of an input that is read partition by partition",
    "by": "the mode of an input that is read by key: only changed keys are computed",
    "all": "the mode of an input that is read whole for each change",
    "stale": "what the dataset is made of has changed; it is computed next",
    "overdue": "the newest data is older than the `freshness` of the dataset allows",
    "blocked": "a dataset upstream failed; it goes on once that is mended",
    "quarantine": "bad records, and rows that an expectation took out, as a dataset of its own",
    "branch": "a copy of all dataflows to edit in; shares the data of main until it differs",
    "feed": "a dataset that is offered to other namespaces, with a contract of columns",
    "late file": "a file of an earlier period that arrives after that period was computed",
}
KEYS: Mapping[str, str] = {
    "Ctrl K": "find a dataset, column, run, page or action",
    "/": "search",
    "?": "this page",
    "g h": "home",
    "g f": "dataflows",
    "g d": "datasets",
    "g b": "branches",
    "g p": "plan",
    "g q": "query",
    "g a": "activity",
    "g c": "checks",
    "g s": "sources",
    "arrow keys": "along the edges of a graph, and up and down its columns",
    "Enter": "open what is chosen",
    "f": "fit the graph to its width",
    "double click": "open a dataset from its box",
    "Shift and arrows": "choose a range of partitions",
    "Space": "choose what the focus is on, in a list",
    "Ctrl and wheel": "zoom",
}


def home(ctx: Context, branch: str) -> HomePage:
    status = visible(ctx, overview.status(ctx, branch))
    parts = components.of_branch(ctx, branch)
    with ctx.read() as tx:
        now = tx.now()
    return {
        "state": status["state"],
        "at": json_views.instant(now),
        "leader": status["leader"],
        "drivers": [driver for driver in status["drivers"] if driver["state"] != "ended"],
        "standstill": status["standstill"],
        "needs": visible(ctx, open_problems.of_branch(ctx, branch)),
        "work": visible(ctx, work_under_way.of_branch(ctx, branch)),
        "waves": visible(ctx, waves.waves(ctx, branch, None, before=None, limit=WAVES))["items"],
        "dataflows": _summaries(status, parts),
    }


def overdue(thing: Mapping[str, object]) -> DatasetFreshness | None:
    """How old its data is, where that is older than it may be."""
    age = cast("DatasetFreshness | None", thing.get("freshness"))
    return age if age and age["late"] else None


def warnings(status: Mapping[str, object]) -> int:
    """How many expectations of a dataset warn."""
    levels = cast("Mapping[str, Sequence[str]]", status.get("checks", {}))
    return len(levels.get("warning", ()))


def _summary(flow: DataflowStatus, text: DataflowText) -> FlowSummary:
    states = Counter[State](thing["state"] for thing in (*flow["datasets"], *flow["targets"]))
    return {
        "name": flow["name"],
        "revision": flow["revision"],
        "state": flow["state"],
        "problem": flow.get("problem"),
        "description": text["description"],
        "states": {state: states[state] for state in WORST_FIRST if states[state]},
        "overdue": sum(overdue(dataset_status) is not None for dataset_status in flow["datasets"]),
        "warnings": sum(map(warnings, flow["datasets"])),
        "datasets": len(flow["datasets"]),
        "targets": len(flow["targets"]),
        "partitions": sum(d["partitions"] for d in flow["datasets"]),
        "rows": sum(d["rows"] for d in flow["datasets"]),
    }


def _summaries(status: StatusAnswer, parts: BranchComponents) -> list[FlowSummary]:
    """The worst first."""
    every = [_summary(flow, parts.text_of(flow["name"])) for flow in status["dataflows"]]
    return sorted(every, key=lambda flow: (WORST_FIRST.index(flow["state"]), flow["name"]))


def flows(ctx: Context, branch: str, query: str, state: str) -> FlowsPage:
    """Those whose name or description has the words, worst first."""
    status, parts = visible(ctx, overview.status(ctx, branch)), components.of_branch(ctx, branch)
    every = _summaries(status, parts)
    words = query.lower().split()
    items = [
        flow
        for flow in every
        if all(word in f"{flow['name']} {flow['description']}".lower() for word in words)
        and state in ("", flow["state"])
    ]
    return {"query": query, "state": state, "total": len(every), "items": items}


@dataclass(frozen=True, slots=True)
class PastPlace:
    """A place in the past of a dataflow: a wave by its id, or that of a time; waves before a
    wave."""

    wave: str = ""
    at: str = ""
    before: str = ""


@dataclass(frozen=True, slots=True)
class ColumnRequest:
    """The columns of a dataset, and the one whose lineage is drawn; an empty name for none."""

    dataset: str
    column: str


def flow(
    ctx: Context,
    branch: str,
    name: str,
    past_request: PastPlace,
    column_request: ColumnRequest | None = None,
) -> FlowPage:
    """`column_request`: None if no column is looked at. Raises NotFound, BadAddress."""
    overall = visible(ctx, overview.status(ctx, branch))
    status = next((named for named in overall["dataflows"] if named["name"] == name), None)
    if status is None:
        raise NotFound(f"there is no dataflow {name} in branch {branch}")
    whole_branch = components.of_branch(ctx, branch)
    text, parts = visible(ctx, whole_branch.text_of(name)), visible(ctx, whole_branch.of_flow(name))
    states = _states(overall)
    beyond = {
        named["name"]: states[named["name"]]
        for named in parts["items"]
        if not _is_of(named["name"], name)
    }
    moment = moments.chosen(ctx, branch, name, past_request.wave, past_request.at)
    return {
        "summary": _summary(status, text),
        "text": text,
        "status": status,
        "beyond": beyond,
        "components": parts,
        "waves": visible(
            ctx,
            waves.waves(ctx, branch, name, before=past_request.before or None, limit=moments.WAVES),
        ),
        "moment": moment,
        "stuck": moments.stuck(moment, parts["edges"], _generations(status)) if moment else [],
        "columns": _columns(ctx, branch, states, column_request),
    }


def _columns(
    ctx: Context, branch: str, states: Mapping[str, State], request: ColumnRequest | None
) -> ColumnsDrawn | None:
    """The columns of one dataset that the page may show. Raises NotFound for a column that it does
    not have."""
    if request is None or request.dataset not in states:
        return None
    lineage_request = LineageRequest(request.dataset, request.column or None)
    upstream = lineage.lineage(ctx, branch, lineage_request)
    drawn: ColumnsDrawn = {
        "dataset": request.dataset,
        "columns": list(upstream["facet"]["fields"]),
        "column": None,
        "links": [],
        "left_out": 0,
    }
    if request.column:
        downward = replace(lineage_request, direction="downstream")
        downstream = lineage.lineage(ctx, branch, downward)
        drawn["column"] = upstream["columns"][0]
        drawn["links"] = upstream["links"] + downstream["links"]
        drawn["left_out"] = upstream["more"] + downstream["more"]
    return visible(ctx, drawn)


def _generations(status: DataflowStatus) -> dict[str, tuple[State, int]]:
    """How each dataset and copy stands, and which generation it has."""
    generations = {
        named["name"]: (named["state"], named["generation"]) for named in status["datasets"]
    }
    return {
        **generations,
        **{
            named["name"]: (named["state"], named["synced_generation"] or 0)
            for named in status["targets"]
        },
    }


def _is_of(dataset: str, flow: str) -> bool:
    return dataset.partition(".")[0] == flow


def _states(status: StatusAnswer) -> dict[str, State]:
    """The state of every dataset and copy, by name."""
    return {
        thing["name"]: thing["state"]
        for flow in status["dataflows"]
        for thing in (*flow["datasets"], *flow["targets"])
    }


def dataset(
    ctx: Context,
    branch: str,
    name: str,
    parts: Collection[DatasetPart],
    *,
    chosen: int | None,
    within: KeysWithin,
) -> DatasetPage:
    """`parts`: what of the page is looked up. `chosen`: the generation whose changes are listed.
    `within`: the range of partitions. Raises NotFound."""
    answer = visible(ctx, datasets.dataset(ctx, branch, name))
    page: DatasetPage = {
        "dataset": answer,
        "facts": visible(ctx, dataset_facts.of_dataset(ctx, branch, name)),
        "why": visible(ctx, causes.why(ctx, branch, name)) if "why" in parts else None,
        "near": None,
        "states": {},
        "code": None,
        "history": None,
        "trends": None,
        "partitions": None,
        "ranges": None,
        "axis": None,
        "work": [],
        "is_more_work": False,
        "times": {},
        "checks": None,
        "check_points": None,
        "records": None,
        "changed": None,
        "failed": None,
    }
    _add_graph(ctx, branch, page, parts)
    if answer["state"] == "failed" and "why" in parts:
        page["failed"] = partitions.with_work(
            ctx, branch, name, "failed", partitions.KeyPage(limit=FAILED)
        )
    if not is_dataset(answer):
        return page
    if "history" in parts or chosen is not None:
        history = datasets.history(
            ctx, branch, name, before=None, limit=trends.GENERATIONS, most_reads=HISTORY_READS
        )
        page["history"] = visible(ctx, history)
    if "history" in parts and page["history"]:
        page["trends"] = trends.of_generations(page["history"]["items"])
    if "checks" in parts:
        page["checks"] = visible(ctx, datasets.checks(ctx, branch, name))
        page["check_points"] = check_history.of_dataset(ctx, branch, name)
    if answer["generation"] and "partitions" in parts:
        _add_partitions(ctx, branch, page, answer, chosen, within)
        _add_work(ctx, branch, page, within)
    return page


def _add_graph(
    ctx: Context, branch: str, page: DatasetPage, parts: Collection[DatasetPart]
) -> None:
    """Its neighbours with their states, and its code."""
    name, compiled = page["dataset"]["name"], components.of_branch(ctx, branch)
    if "code" in parts:
        page["code"] = compiled.code_of(name)
    if "near" in parts:
        states, near = overview.states(ctx, branch), visible(ctx, compiled.around(name))
        names = [named["name"] for named in near["items"]]
        page["near"] = near
        page["states"] = {other: states[other] for other in names if other in states}


def _add_partitions(
    ctx: Context,
    branch: str,
    page: DatasetPage,
    answer: DatasetAnswer,
    chosen: int | None,
    within: KeysWithin,
) -> None:
    """Add the partitions; if there are many, ranges that are read off the upper nodes of their
    tree."""
    name = answer["name"]
    numbers = [entry["generation"] for entry in page["history"]["items"]] if page["history"] else []
    before = next(
        (
            number
            for number in numbers
            if chosen in numbers and chosen is not None and number < chosen
        ),
        None,
    )
    if answer["partitions"] > ranges.CELLS or not within.is_all:
        page["ranges"], page["axis"] = ranges.read_ranges(ctx, branch, name, within, chosen, before)
        return
    page["changed"] = _changed(ctx, branch, name, chosen, before)
    page["partitions"] = datasets.partitions(ctx, branch, name, after=None, limit=ranges.CELLS)
    keys = list(fragments_of(page))
    axis = ranges.axis_of(keys, [1] * len(keys))
    if axis is not None and time_axis.has_one_key_each(axis["period"], keys):
        page["axis"] = axis


def _add_work(ctx: Context, branch: str, page: DatasetPage, within: KeysWithin) -> None:
    """Add the partitions with work in the range, and the times of those that are shown one by
    one."""
    name = page["dataset"]["name"]
    keys = partitions.KeyPage(after=within.after, limit=WORK)
    for work in ("failed", "to_do"):
        answer = partitions.with_work(ctx, branch, name, work, keys)
        fitting = [
            partition
            for partition in answer["items"]
            if within.last is None or partition["partition"] <= within.last
        ]
        page["work"] += fitting
        if answer["next"] is not None and len(fitting) == len(answer["items"]):
            page["is_more_work"] = True
    page["times"] = partition_times.times_of(ctx, fragments_of(page).values())


def fragments_of(page: DatasetPage) -> dict[str, str]:
    """The fragments of partitions that are shown one by one, by their keys."""
    if page["partitions"] is not None:
        listed = page["partitions"]["items"]
        return {part["partition"]: part["fragment"] for part in listed if part["fragment"]}
    if page["ranges"] is None:
        return {}
    single = [part for part in page["ranges"]["items"] if part["partitions"] == 1]
    if len(single) > ranges.CELLS:
        return {}
    return {part["last"]: part["digest"] for part in single}


def _changed(
    ctx: Context, branch: str, name: str, chosen: int | None, before: int | None
) -> DataDifference | None:
    """Since the generation before it; None where that is not known, as of the first one."""
    if chosen is None or before is None:
        return None
    diff_request = data_diff.DiffRequest(limit=CHANGED)
    first, last = Generation(before), Generation(chosen)
    return data_diff.of_points(
        ctx,
        no_comparison,
        branch,
        dataset=name,
        first_point=first,
        other=last,
        request=diff_request,
    )


def is_dataset(answer: DatasetAnswer | TargetStatus) -> TypeIs[DatasetAnswer]:
    return "generation" in answer


def blueprint(ctx: Context, branch: str, name: str, revision: int | None) -> BlueprintPage:
    """`revision`: which one; None is the newest. Raises NotFound."""
    dataflow = visible(ctx, blueprints.dataflow(ctx, branch, name))
    newest = dataflow["revision"]
    if revision is not None:
        dataflow = visible(ctx, past_texts.text(ctx, branch, name, revision))
    return {
        "dataflow": dataflow,
        "newest": newest,
        "revisions": past_texts.revisions(ctx, branch, name, REVISIONS),
        "difference": past_texts.difference(ctx, branch, name, dataflow["revision"]),
        "problem": _problem(visible(ctx, overview.status(ctx, branch))["dataflows"], name),
    }


def _problem(flows: Iterable[DataflowStatus], name: str) -> str | None:
    return next((flow.get("problem") for flow in flows if flow["name"] == name), None)


def keys() -> KeysPage:
    return {"keys": dict(KEYS), "words": dict(WORDS)}

"""What each page shows: values put together from operations. Changes nothing.

Does not belong here: requests and answers (`pages`), pictures (`draw`), markup (templates).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from typing_extensions import TypeIs

from controlplane.core.errors import CorruptNode, NotFound
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers import (
    DataDifference,
    DataflowStatus,
    DatasetAnswer,
    DatasetFreshness,
    ErrorReport,
    State,
    StatusAnswer,
    TargetStatus,
)
from controlplane.core.model.answers.components import DataflowText
from controlplane.core.model.json_values import JsonValue
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from controlplane.operations.explore import partitions, waves
from controlplane.operations.inspect import (
    audit,
    causes,
    components,
    data_diff,
    datasets,
    overview,
    past_texts,
    records,
)
from controlplane.operations.inspect.hidden import seen
from controlplane.ports.records import RenderRecords
from controlplane.ports.row_diff import no_comparison
from controlplane.ui import moments, ranges
from controlplane.ui.ranges import Within
from controlplane.ui.values import (
    BlueprintPage,
    DatasetPage,
    FlowPage,
    FlowsPage,
    FlowSummary,
    HomePage,
    KeysPage,
    Need,
    RecordsShown,
    Work,
)

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
NEEDS: frozenset[State] = frozenset({"failed", "blocked", "waiting"})
WAVES = 6
GENERATIONS = 30
HISTORY_READS = 24  # tree nodes for counts of changes: of the 100 of a page
REVISIONS = 20
CHANGED = 1_000  # partitions that are outlined
RECORDS = 20
FAILED = 10  # partitions that are named
NOT_COMPILED: DataflowText = {"description": "", "timezone": ""}
KEYS: Mapping[str, str] = {
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
    "f": "fit the graph",
    "Space": "choose what the focus is on, in a list",
    "Ctrl and wheel": "zoom",
}


def home(ctx: Context, branch: str) -> HomePage:
    found = seen(ctx, overview.status(ctx, branch, long=True))
    known = components.whole(ctx, branch)
    return {
        "state": found["state"],
        "leader": found["leader"],
        "standstill": found["standstill"],
        "needs": _needs(found),
        "work": work_now(found),
        "waves": seen(ctx, waves.waves(ctx, branch, None, before=None, limit=WAVES))["items"],
        "dataflows": [_summary(flow, known.text_of(flow["name"])) for flow in found["dataflows"]],
    }


def _needs(found: StatusAnswer) -> list[Need]:
    """Worst first, in order of names."""
    needs: list[Need] = []
    for flow in found["dataflows"]:
        if "problem" in flow:
            needs.append(_need(flow["name"], "failed", flow["problem"]))
        for thing in (*flow["datasets"], *flow["targets"]):
            age = overdue(thing)
            if thing["state"] in NEEDS:
                needs.append(_need(thing["name"], thing["state"], thing["reason"] or "", thing["error"], age))
            elif age is not None:
                needs.append(_need(thing["name"], thing["state"], age["reason"] or "", freshness=age))
    return sorted(needs, key=lambda need: (WORST_FIRST.index(need["state"]), need["name"]))


def _need(
    name: str,
    state: State,
    sentence: str,
    error: ErrorReport | None = None,
    freshness: DatasetFreshness | None = None,
) -> Need:
    return {"name": name, "state": state, "sentence": sentence, "error": error, "freshness": freshness}


def overdue(thing: Mapping[str, object]) -> DatasetFreshness | None:
    """How old its data is, where that is older than it may be."""
    age = cast("DatasetFreshness | None", thing.get("freshness"))
    return age if age and age["late"] else None


def work_now(found: StatusAnswer) -> list[Work]:
    """What is computed now."""
    work: list[Work] = []
    for flow in found["dataflows"]:
        for thing in (*flow["datasets"], *flow["targets"]):
            times = thing.get("times")
            running = times["running"] if times else None
            if running is not None:
                work.append({"name": thing["name"], "attempts": running["attempts"], "since": running["since"]})
            elif thing["state"] == "building":
                work.append({"name": thing["name"], "attempts": None, "since": None})
    return work


def _summary(flow: DataflowStatus, text: DataflowText) -> FlowSummary:
    states = Counter[State](thing["state"] for thing in (*flow["datasets"], *flow["targets"]))
    return {
        "name": flow["name"],
        "revision": flow["revision"],
        "state": flow["state"],
        "problem": flow.get("problem"),
        "description": text["description"],
        "states": {state: states[state] for state in WORST_FIRST if states[state]},
        "overdue": sum(overdue(one) is not None for one in flow["datasets"]),
        "datasets": len(flow["datasets"]),
        "targets": len(flow["targets"]),
        "partitions": sum(d["partitions"] for d in flow["datasets"]),
        "rows": sum(d["rows"] for d in flow["datasets"]),
    }


def flows(ctx: Context, branch: str, query: str, state: str) -> FlowsPage:
    """Those whose name or description has the words, worst first."""
    found, known = seen(ctx, overview.status(ctx, branch)), components.whole(ctx, branch)
    every = [_summary(flow, known.text_of(flow["name"])) for flow in found["dataflows"]]
    words = query.lower().split()
    items = [
        flow
        for flow in every
        if all(word in f"{flow['name']} {flow['description']}".lower() for word in words)
        and state in ("", flow["state"])
    ]
    items.sort(key=lambda flow: (WORST_FIRST.index(flow["state"]), flow["name"]))
    return {"query": query, "state": state, "total": len(every), "items": items}


@dataclass(frozen=True, slots=True)
class Past:
    """What of the past of a dataflow is asked for: a wave by its id, or that of a time; waves before a wave."""

    wave: str = ""
    at: str = ""
    before: str = ""


def flow(ctx: Context, branch: str, name: str, asked: Past) -> FlowPage:
    """Raises NotFound, BadAddress."""
    found = seen(ctx, overview.status(ctx, branch))
    status = next((one for one in found["dataflows"] if one["name"] == name), None)
    if status is None:
        raise NotFound(f"there is no dataflow {name} in branch {branch}")
    known = components.whole(ctx, branch)
    text, parts = seen(ctx, known.text_of(name)), seen(ctx, known.of_flow(name))
    states = _states(found)
    beyond = {one["name"]: states[one["name"]] for one in parts["items"] if not _is_of(one["name"], name)}
    moment = moments.chosen(ctx, branch, name, asked.wave, asked.at)
    return {
        "summary": _summary(status, text),
        "text": text,
        "status": status,
        "beyond": beyond,
        "components": parts,
        "waves": seen(ctx, waves.waves(ctx, branch, name, before=asked.before or None, limit=moments.WAVES)),
        "moment": moment,
        "stuck": moments.stuck(moment, parts["edges"], _generations(status)) if moment else [],
    }


def _generations(status: DataflowStatus) -> dict[str, tuple[State, int]]:
    """How each dataset and copy stands, and which generation it has."""
    found = {one["name"]: (one["state"], one["generation"]) for one in status["datasets"]}
    return {**found, **{one["name"]: (one["state"], one["synced_generation"] or 0) for one in status["targets"]}}


def _is_of(dataset: str, flow: str) -> bool:
    return dataset.partition(".")[0] == flow


def _states(found: StatusAnswer) -> dict[str, State]:
    """Of every dataset and copy."""
    return {
        thing["name"]: thing["state"] for flow in found["dataflows"] for thing in (*flow["datasets"], *flow["targets"])
    }


def dataset(
    ctx: Context,
    branch: str,
    name: str,
    render: RenderRecords,
    *,
    chosen: int | None,
    within: Within,
    with_records: bool,
) -> DatasetPage:
    """`chosen`: the generation whose changes are told. `within`: of which partitions. Raises NotFound."""
    found = seen(ctx, datasets.dataset(ctx, branch, name))
    known = components.whole(ctx, branch)
    why, states = seen(ctx, causes.why(ctx, branch, name)), overview.states(ctx, branch)
    near = seen(ctx, known.around(name))
    page: DatasetPage = {
        "dataset": found,
        "why": why,
        "near": near,
        "states": {one["name"]: states[one["name"]] for one in near["items"] if one["name"] in states},
        "code": known.code_of(name),
        "history": None,
        "partitions": None,
        "ranges": None,
        "checks": None,
        "records": None,
        "changed": None,
        "failed": None,
    }
    if found["state"] == "failed":
        page["failed"] = partitions.with_work(ctx, branch, name, "failed", partitions.Page(limit=FAILED))
    if not is_dataset(found):
        return page
    history = datasets.history(ctx, branch, name, before=None, limit=GENERATIONS, most_reads=HISTORY_READS)
    page["history"] = seen(ctx, history)
    page["checks"] = seen(ctx, datasets.checks(ctx, branch, name))
    if found["generation"]:
        _add_partitions(ctx, branch, page, found, chosen, within)
        if with_records:
            page["records"] = _records(ctx, branch, name, render)
    return page


def _add_partitions(
    ctx: Context, branch: str, page: DatasetPage, found: DatasetAnswer, chosen: int | None, within: Within
) -> None:
    """Of many, ranges that are read off the upper nodes of their tree."""
    name = found["name"]
    known = [entry["generation"] for entry in page["history"]["items"]] if page["history"] else []
    before = next((number for number in known if chosen in known and chosen is not None and number < chosen), None)
    if found["partitions"] > ranges.CELLS or not within.is_all:
        page["ranges"] = ranges.found(ctx, branch, name, within, chosen, before)
        return
    page["changed"] = _changed(ctx, branch, name, chosen, before)
    page["partitions"] = datasets.partitions(ctx, branch, name, after=None, limit=ranges.CELLS)


def _changed(ctx: Context, branch: str, name: str, chosen: int | None, before: int | None) -> DataDifference | None:
    """Since the generation before it; None where that is not known, as of the first one."""
    if chosen is None or before is None:
        return None
    wish = data_diff.Wish(limit=CHANGED)
    points = {"one": Generation(before), "other": Generation(chosen)}
    return data_diff.of_points(ctx, no_comparison, branch, dataset=name, **points, wish=wish)


def is_dataset(found: DatasetAnswer | TargetStatus) -> TypeIs[DatasetAnswer]:
    return "generation" in found


def _records(ctx: Context, branch: str, name: str, render: RenderRecords) -> RecordsShown:
    """The first rows."""
    try:
        found = records.first(ctx, branch, name, RECORDS)
        if not found.wanted.files:
            return {"items": [], "problem": None}
        audit.note_read(ctx, "page", branch, name, {"generation": found.generation, "limit": RECORDS})
        text = b"".join(render(found.wanted))
        return {"items": cast("list[dict[str, JsonValue]]", json.loads(text)), "problem": None}
    except (OSError, NotFound, CorruptNode, ValueError):
        return {"items": [], "problem": "these rows cannot be read now: the log says why"}


def blueprint(ctx: Context, branch: str, name: str, revision: int | None) -> BlueprintPage:
    """`revision`: which one; None is the newest. Raises NotFound."""
    found = seen(ctx, blueprints.dataflow(ctx, branch, name))
    newest = found["revision"]
    if revision is not None:
        found = seen(ctx, past_texts.text(ctx, branch, name, revision))
    return {
        "dataflow": found,
        "newest": newest,
        "revisions": past_texts.revisions(ctx, branch, name, REVISIONS),
        "difference": past_texts.difference(ctx, branch, name, found["revision"]),
        "problem": _problem(seen(ctx, overview.status(ctx, branch))["dataflows"], name),
    }


def _problem(flows: Iterable[DataflowStatus], name: str) -> str | None:
    return next((flow.get("problem") for flow in flows if flow["name"] == name), None)


def keys() -> KeysPage:
    return {"keys": dict(KEYS)}

"""Pages of what there is: home, dataflows, datasets, texts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from starlette.routing import Route

from controlplane.core.errors import NotFound
from controlplane.core.explain.listed_causes import listed_causes
from controlplane.core.model.answers.datasets import Trend
from controlplane.operations.inspect.datasets import without_rows
from controlplane.ui import graph_focus, pictures, views
from controlplane.ui.actions import LONGEST_KEY
from controlplane.ui.check_views import ShownCheck, shown_checks
from controlplane.ui.graph_focus import GraphRequest
from controlplane.ui.names import DATASET, number_of
from controlplane.ui.page import (
    Page,
    both,
    dataset_of,
    flow_of,
    nothing,
    part_of_flow,
    wants_json,
)
from controlplane.ui.page_request import PageRequest
from controlplane.ui.page_types import (
    BlueprintPage,
    DatasetPage,
    FlowPage,
    FlowsPage,
    HomePage,
    KeysPage,
)
from controlplane.ui.ranges import KeysWithin
from controlplane.ui.rows_pages import NUMBERS, first_rows
from controlplane.ui.session_rights import may
from controlplane.ui.sparklines import Sparkline, sparkline


def _home(page_request: PageRequest) -> HomePage:
    return views.home(page_request.context, page_request.branch)


def _flows(page_request: PageRequest) -> FlowsPage:
    return views.flows(
        page_request.context,
        page_request.branch,
        page_request.query("q"),
        page_request.query("state"),
    )


def _flow_value(page_request: PageRequest) -> FlowPage:
    past = views.PastPlace(
        page_request.query("wave"), page_request.query("at"), page_request.query("before")
    )
    on, column = page_request.query("on"), page_request.request.query_params.get("column")
    has_columns = column is not None and DATASET.fullmatch(on) and page_request.may("view", on)
    columns = views.ColumnRequest(on, (column or "")[:LONGEST_COLUMN]) if has_columns else None
    return views.flow(
        page_request.context, page_request.branch, part_of_flow(page_request), past, columns
    )


def _graph_request(page_request: PageRequest) -> GraphRequest:
    opened = page_request.request.query_params.getlist("open")[: graph_focus.MOST_OPEN]
    return GraphRequest(
        chosen=page_request.query("on"),
        words=page_request.query("find").strip()[: graph_focus.LONGEST_WORDS],
        by=page_request.query("group"),
        opened=frozenset(opened),
        is_all=page_request.query("show") == "all",
    )


def _flow_shown(page_request: PageRequest, page: FlowPage) -> Mapping[str, Any]:
    """The list is the equal of the picture: worst first."""
    status = page["status"]
    things = {t["name"]: t for t in (*status["datasets"], *status["targets"])}
    rows = [
        {**component, **things[component["name"]]}
        for component in page["components"]["items"]
        if component["name"] in things
    ]
    rows.sort(key=lambda row: (views.WORST_FIRST.index(row["state"]), row["name"]))
    request, wave = _graph_request(page_request), page["moment"]
    on = next((row for row in rows if row["name"] == request.chosen), None)
    picture = pictures.of_flow(page, request)
    listed = [row for row in rows if request.words.lower() in str(row["name"]).lower()]
    start = max(number_of(page_request.query("rows")) or 0, 0)
    address_fields: dict[str, str | list[str]] = {
        "wave": wave["id"] if wave else "",
        "group": request.by,
        "open": sorted(request.opened),
        "show": "all" if request.is_all else "",
        "find": request.words,
    }
    return {
        "target": page["summary"]["name"],
        "rows": listed[start : start + ROWS_LISTED],
        "listed": len(listed),
        "start": start,
        "on": on,
        "g": picture.drawing,
        "parts": picture.parts,
        "graph_request": request,
        "group_names": tuple(graph_focus.GROUPS),
        "worst": views.WORST_FIRST,
        "graph_url": lambda **changes: _flow_address(page, {**address_fields, **changes}),
        "chooses": _flow_address(page, address_fields) + "on=",
    }


def _flow_address(page: FlowPage, fields: Mapping[str, str | list[str]]) -> str:
    """Without empty fields; one more field may follow."""
    filled = {name: texts for name, texts in fields.items() if texts}
    query = f"{urlencode(filled, doseq=True)}&" if filled else ""
    return f"/flows/{page['summary']['name']}?{query}"


ROWS_LISTED = 100  # datasets on a page of the list
LONGEST_COLUMN = 1_000  # characters of a name
LINES_SHOWN = 2_000  # of each file of a blueprint
TABS: Mapping[str, tuple[str, frozenset[views.DatasetPart]]] = {
    "": ("Overview", frozenset({"why", "near"})),
    "data": ("Data", frozenset()),
    "partitions": ("Partitions", frozenset({"partitions"})),
    "columns": ("Columns", frozenset()),
    "checks": ("Checks", frozenset({"checks"})),
    "history": ("History", frozenset({"history"})),
    "code": ("Code", frozenset({"code"})),
}
OF_EXPORTS = ("", "code")
NOT_OF_EXPORTS = ("partitions", "history", "trends", "checks")
FRAGMENTS: Mapping[str, frozenset[views.DatasetPart]] = {
    "head": frozenset(),
    "why": frozenset({"why"}),
    "schema": frozenset(),
    "near": frozenset({"near"}),
    "partitions": frozenset({"partitions"}),
    "history": frozenset({"history"}),
    "trends": frozenset({"history"}),
    "checks": frozenset({"checks"}),
}
EVERY_PART: frozenset[views.DatasetPart] = frozenset().union(*(parts for _, parts in TABS.values()))


def _tab(page_request: PageRequest) -> str:
    """The tab of an address; partitions where a range or a generation of them is chosen."""
    tab = page_request.query("tab")
    if tab in TABS and tab:
        return tab
    is_of_partitions = page_request.query("gen") or not _within(page_request).is_all
    return "partitions" if is_of_partitions else ""


def _dataset_value(page_request: PageRequest) -> DatasetPage:
    """JSON has all parts, a page those of its tab, and a fragment its own."""
    is_json = wants_json(page_request.request)
    fragment = page_request.query("part")
    parts = EVERY_PART if is_json else TABS[_tab(page_request)][1]
    if fragment and not is_json:
        parts = FRAGMENTS.get(fragment, parts)
    page = _page_with(page_request, parts)
    if not views.is_dataset(page["dataset"]):
        if fragment in NOT_OF_EXPORTS:
            raise NotFound("an export has no such part")
        if _tab(page_request) not in OF_EXPORTS and parts is not EVERY_PART:
            return _page_with(page_request, TABS[""][1])
    if page["checks"] and not may(page_request.token, "data"):
        page["checks"] = without_rows(page["checks"])
    is_filled = views.is_dataset(page["dataset"]) and page["dataset"]["generation"] > 0
    if is_json and is_filled and may(page_request.token, "data"):
        rows, _ = first_rows(page_request)
        page["records"] = {"items": rows["items"], "problem": rows["problem"]}
    return page


def _page_with(page_request: PageRequest, parts: frozenset[views.DatasetPart]) -> DatasetPage:
    return views.dataset(
        page_request.context,
        page_request.branch,
        dataset_of(page_request),
        parts,
        chosen=number_of(page_request.query("gen")),
        within=_within(page_request),
    )


def _within(page_request: PageRequest) -> KeysWithin:
    """Keys may be longer than a text that is typed."""
    parameters = page_request.request.query_params
    after, last = parameters.get("from"), parameters.get("to")
    return KeysWithin((after or "")[:LONGEST_KEY] or None, (last or "")[:LONGEST_KEY] or None)


def _dataset_shown(page_request: PageRequest, page: DatasetPage) -> Mapping[str, Any]:
    shown = page["dataset"]
    is_lost = shown["state"] == "waiting" and "--accept-deletes" in (shown["reason"] or "")
    tabs = [tab for tab in TABS if views.is_dataset(shown) or tab in OF_EXPORTS]
    tab = _tab(page_request)
    cells = pictures.of_partitions(page, page_request.query("colour"))
    return {
        "target": shown["name"],
        "tab": tab if tab in tabs else "",
        "tabs": [(name, TABS[name][0]) for name in tabs],
        "loss": (shown["reason"] or "").partition(";")[0] if is_lost else "",
        "g": pictures.of_neighbours(page),
        "cells": cells,
        "key_column": pictures.key_column(page, cells),
        "within": _within(page_request),
        "most_work": views.WORK,
        "causes_found": list(listed_causes(page["why"]["tree"] if page["why"] else None)),
        "first_with": _first_with(page),
        "checks_shown": _checks_shown(page),
        "trend_lines": _trend_lines(page),
        "numbers": NUMBERS,
        "url": page_request.origin,
    }


def _checks_shown(page: DatasetPage) -> list[ShownCheck]:
    return shown_checks(page["checks"], page["check_points"] or {}) if page["checks"] else []


def _trend_lines(page: DatasetPage) -> list[tuple[Trend, Sparkline]]:
    """Trends with their lines, whose marks are jumps."""
    lines: list[tuple[Trend, Sparkline]] = []
    for trend in page["trends"] or ():
        points = trend["points"]
        amounts, jumps = [p["amount"] for p in points], [p["is_jump"] for p in points]
        if line := sparkline(amounts, jumps):
            lines.append((trend, line))
    return lines


def _first_with(page: DatasetPage) -> Mapping[str, int]:
    """By root, the oldest generation with that data: later ones have the same as it."""
    history = page["history"]
    return {entry["root"]: entry["generation"] for entry in (history["items"] if history else [])}


def _blueprint(page_request: PageRequest) -> BlueprintPage:
    return views.blueprint(
        page_request.context,
        page_request.branch,
        flow_of(page_request),
        number_of(page_request.query("rev")),
    )


def _keys(page_request: PageRequest) -> KeysPage:  # noqa: ARG001  # as all pages
    return views.keys()


def _states(page_request: PageRequest, page: object) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"worst": views.WORST_FIRST}


def _flow_command(page_request: PageRequest) -> str:
    wave = page_request.query("wave")
    return (
        f"headgate waves {shlex.quote(wave)}"
        if wave
        else f"headgate status {part_of_flow(page_request)}"
    )


def _dataset_command(page_request: PageRequest) -> str:
    within, name = _within(page_request), dataset_of(page_request)
    if within.is_all:
        return f"headgate why {name}"
    options = [f"--from {shlex.quote(within.after)}"] if within.after is not None else []
    options += [f"--to {shlex.quote(within.last)}"] if within.last is not None else []
    return " ".join(["headgate ranges", name, *options])


HOME = Page("home.html", _home, _states, lambda _: "headgate status")
FLOWS = Page("flows.html", _flows, _states, lambda _: "headgate status")
FLOW_PAGE = Page("flow.html", _flow_value, _flow_shown, _flow_command)
BLUEPRINT = Page(
    "blueprint.html",
    _blueprint,
    lambda *_: {"lines_shown": LINES_SHOWN},
    lambda page_request: f"headgate status {flow_of(page_request)}",
)
DATASET_PAGE = Page("dataset.html", _dataset_value, _dataset_shown, _dataset_command)
HELP = Page("keys.html", _keys, _states, lambda _: "headgate --help", is_of_branch=False)


TUTORIAL = Page(
    "tutorial.html",
    lambda _: dict[str, str](),
    nothing,
    lambda _: "headgate --help",
    is_of_branch=False,
)


ROUTES: list[Route] = [
    *both("/", HOME),
    *both("/flows", FLOWS),
    *both("/flows/{name}/blueprint", BLUEPRINT),
    *both("/flows/{name}", FLOW_PAGE),
    *both("/datasets/{name}", DATASET_PAGE),
    *both("/help/keys", HELP),
    *both("/help/tutorial", TUTORIAL),
]

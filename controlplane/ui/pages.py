"""Pages of what there is: home, dataflows, datasets, texts.

Does not belong here: what a page is (`page`), what a value has (`views`), pictures (`pictures`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from starlette.routing import Route

from controlplane.core.model.answers import WhyNode
from controlplane.ui import pictures, views
from controlplane.ui.actions import LONGEST_KEY
from controlplane.ui.asking import Asking
from controlplane.ui.names import number_of
from controlplane.ui.page import Page, both, dataset_of, flow_of, nothing, part_of_flow
from controlplane.ui.ranges import Within
from controlplane.ui.rights import may
from controlplane.ui.values import (
    BlueprintPage,
    DatasetPage,
    FlowPage,
    FlowsPage,
    HomePage,
    KeysPage,
)

NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})


def _home(asked: Asking) -> HomePage:
    return views.home(asked.context, asked.branch)


def _flows(asked: Asking) -> FlowsPage:
    return views.flows(asked.context, asked.branch, asked.query("q"), asked.query("state"))


def _flow_value(asked: Asking) -> FlowPage:
    past = views.Past(asked.query("wave"), asked.query("at"), asked.query("before"))
    return views.flow(asked.context, asked.branch, part_of_flow(asked), past)


def _flow_shown(asked: Asking, page: FlowPage) -> Mapping[str, Any]:
    """The list is the equal of the picture: worst first."""
    status = page["status"]
    things = {t["name"]: t for t in (*status["datasets"], *status["targets"])}
    rows = [{**one, **things[one["name"]]} for one in page["components"]["items"] if one["name"] in things]
    rows.sort(key=lambda row: (views.WORST_FIRST.index(row["state"]), row["name"]))
    chosen, wave = asked.query("on"), page["moment"]
    on = next((row for row in rows if row["name"] == chosen), None)
    return {
        "target": page["summary"]["name"],
        "rows": rows,
        "on": on,
        "g": pictures.of_flow(page, chosen or None),
        "worst": views.WORST_FIRST,
        "chooses": f"/flows/{page['summary']['name']}?" + (f"wave={quote(wave['id'])}&on=" if wave else "on="),
    }


def _dataset_value(asked: Asking) -> DatasetPage:
    with_records = may(asked.token, "data")
    name = dataset_of(asked)
    chosen = number_of(asked.query("gen"))
    return views.dataset(
        asked.context,
        asked.branch,
        name,
        asked.services.render,
        chosen=chosen,
        within=_within(asked),
        with_records=with_records,
    )


def _within(asked: Asking) -> Within:
    """Keys may be longer than what anybody would type."""
    given = asked.request.query_params
    after, last = given.get("from"), given.get("to")
    return Within(None if after is None else after[:LONGEST_KEY], None if last is None else last[:LONGEST_KEY])


def _dataset_shown(asked: Asking, page: DatasetPage) -> Mapping[str, Any]:
    found = page["dataset"]
    is_lost = found["state"] == "waiting" and "--accept-deletes" in (found["reason"] or "")
    return {
        "target": found["name"],
        "loss": (found["reason"] or "").partition(";")[0] if is_lost else "",
        "g": pictures.of_neighbours(page),
        "cells": pictures.of_partitions(page),
        "within": _within(asked),
        "causes_found": list(told_causes(page["why"]["tree"])),
        "first_with": _first_with(page),
        "numbers": NUMBERS,
        "url": asked.origin,
    }


def told_causes(node: WhyNode | None, depth: int = 0) -> Iterator[tuple[int, WhyNode]]:
    """The causes as a list, nearest first, with how deep each is."""
    if node is None:
        return
    yield depth, node
    for one in node["inputs"]:
        yield from told_causes(one, depth + 1)


def _first_with(page: DatasetPage) -> Mapping[str, int]:
    """By root, the oldest generation with that data: later ones have the same as it."""
    history = page["history"]
    return {entry["root"]: entry["generation"] for entry in (history["items"] if history else [])}


def _blueprint(asked: Asking) -> BlueprintPage:
    return views.blueprint(asked.context, asked.branch, flow_of(asked), number_of(asked.query("rev")))


def _keys(asked: Asking) -> KeysPage:  # noqa: ARG001  # as all pages
    return views.keys()


def _states(asked: Asking, page: object) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"worst": views.WORST_FIRST}


def _flow_command(asked: Asking) -> str:
    wave = asked.query("wave")
    return f"headgate waves {shlex.quote(wave)}" if wave else f"headgate status {part_of_flow(asked)}"


def _dataset_command(asked: Asking) -> str:
    within, name = _within(asked), dataset_of(asked)
    if within.is_all:
        return f"headgate why {name}"
    told = [f"--from {shlex.quote(within.after)}"] if within.after is not None else []
    told += [f"--to {shlex.quote(within.last)}"] if within.last is not None else []
    return " ".join(["headgate ranges", name, *told])


HOME = Page("home.html", _home, _states, lambda _: "headgate status")
FLOWS = Page("flows.html", _flows, _states, lambda _: "headgate status")
FLOW_PAGE = Page("flow.html", _flow_value, _flow_shown, _flow_command)
BLUEPRINT = Page("blueprint.html", _blueprint, nothing, lambda asked: f"headgate status {flow_of(asked)}")
DATASET_PAGE = Page("dataset.html", _dataset_value, _dataset_shown, _dataset_command)
HELP = Page("keys.html", _keys, _states, lambda _: "headgate --help", is_of_branch=False)


ROUTES: list[Route] = [
    *both("/", HOME),
    *both("/flows", FLOWS),
    *both("/flows/{name}/blueprint", BLUEPRINT),
    *both("/flows/{name}", FLOW_PAGE),
    *both("/datasets/{name}", DATASET_PAGE),
    *both("/help/keys", HELP),
]

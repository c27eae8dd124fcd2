"""The pages: each is one value, as HTML or, at the same path with `.json`, as it is.

Does not belong here: what a value has (`views`), pictures (`pictures`), who asks (`asking`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from controlplane.core.errors import NotFound
from controlplane.core.model.answers import WhyNode
from controlplane.operations.inspect import overview
from controlplane.ui import pictures, rendering, views
from controlplane.ui.asking import Asking, asking
from controlplane.ui.rights import may
from controlplane.ui.values import (
    BlueprintPage,
    CataloguePage,
    DatasetPage,
    FlowPage,
    FlowsPage,
    HomePage,
    KeysPage,
)

V = TypeVar("V")
FLOW = re.compile(r"[a-z][a-z0-9_]{0,199}")
DATASET = re.compile(r"[a-z][a-z0-9_]{0,199}\.[a-z][a-z0-9_]{0,199}")
NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})
TWIN = ".json"
CURL = 'curl -H "Authorization: Bearer $HEADGATE_TOKEN"'


@dataclass(frozen=True, slots=True)
class Page(Generic[V]):
    """`shown`: what only the template needs, made of the value. `command`: what the command line shows it by."""

    template: str
    value: Callable[[Asking], V]
    shown: Callable[[Asking, V], Mapping[str, Any]]
    command: Callable[[Asking], str]

    def __call__(self, request: Request) -> Response:
        """As JSON where the path or the Accept header says so."""
        asked = asking(request)
        asked.require("view")
        after = overview.newest_event(
            asked.context
        )  # before the value: what comes in between is shown twice, not never
        value = self.value(asked)
        if wants_json(request):
            return JSONResponse(value)
        path = request.url.path
        twin = "/index.json" if path == "/" else f"{path}{TWIN}"
        query = f"?{request.url.query}" if request.url.query else ""
        shown = {
            **self.shown(asked, value),
            "page": value,
            "twin": twin + query,
            "here": path,
            "asked": asked,
            "after": after,
            "part_url": lambda part: request.url.include_query_params(part=part).replace(scheme="", netloc=""),
            "commands": [
                ("Shell", self.command(asked)),
                ("curl", f"{CURL} '{str(request.base_url).rstrip('/')}{twin}'"),
            ],
        }
        part = asked.query("part")
        try:
            return rendering.page(request, self.template, shown, part=part)
        except KeyError:
            if part:
                raise NotFound("this page has no such part") from None
            raise


def wants_json(request: Request) -> bool:
    return is_twin(request) or (
        "text/html" not in request.headers.get("accept", "text/html, */*")
        and ("application/json" in request.headers.get("accept", ""))
    )


def is_twin(request: Request) -> bool:
    return bool(getattr(request.state, "is_twin", False))


def _named(asked: Asking, kind: str, pattern: re.Pattern[str]) -> str:
    name = str(asked.request.path_params["name"])
    if not pattern.fullmatch(name):
        raise NotFound(f"there is no {kind} of this name")
    return name


def _flow(asked: Asking) -> str:
    return _named(asked, "dataflow", FLOW)


def _dataset(asked: Asking) -> str:
    return _named(asked, "dataset", DATASET)


def _home(asked: Asking) -> HomePage:
    return views.home(asked.context, asked.branch)


def _flows(asked: Asking) -> FlowsPage:
    return views.flows(asked.context, asked.branch, asked.query("q"), asked.query("state"))


def _flow_value(asked: Asking) -> FlowPage:
    return views.flow(asked.context, asked.branch, _flow(asked))


def _flow_shown(asked: Asking, page: FlowPage) -> Mapping[str, Any]:
    """The list is the equal of the picture: worst first."""
    status = page["status"]
    things = {t["name"]: t for t in (*status["datasets"], *status["targets"])}
    rows = [{**one, **things[one["name"]]} for one in page["components"]["items"] if one["name"] in things]
    rows.sort(key=lambda row: (views.WORST_FIRST.index(row["state"]), row["name"]))
    chosen = asked.query("on")
    on = next((row for row in rows if row["name"] == chosen), None)
    return {"rows": rows, "on": on, "g": pictures.of_flow(page, chosen or None), "worst": views.WORST_FIRST}


def _catalogue(asked: Asking) -> CataloguePage:
    return views.catalogue(
        asked.context, asked.branch, query=asked.query("q"), state=asked.query("state"), after=asked.query("after")
    )


def _dataset_value(asked: Asking) -> DatasetPage:
    with_records = may(asked.token, "data")
    name = _dataset(asked)
    return views.dataset(asked.context, asked.branch, name, asked.services.render, with_records=with_records)


def _dataset_shown(asked: Asking, page: DatasetPage) -> Mapping[str, Any]:
    return {
        "g": pictures.of_neighbours(page),
        "cells": pictures.of_partitions(page),
        "causes_found": list(_told(page["why"]["tree"])),
        "first_with": _first_with(page),
        "numbers": NUMBERS,
        "url": str(asked.request.base_url).rstrip("/"),
    }


def _told(node: WhyNode | None, depth: int = 0) -> Iterator[tuple[int, WhyNode]]:
    """The causes as a list, nearest first, with how deep each is."""
    if node is None:
        return
    yield depth, node
    for one in node["inputs"]:
        yield from _told(one, depth + 1)


def _first_with(page: DatasetPage) -> Mapping[str, int]:
    """By root, the oldest generation with that data: later ones have the same as it."""
    history = page["history"]
    return {entry["root"]: entry["generation"] for entry in (history["items"] if history else [])}


def _blueprint(asked: Asking) -> BlueprintPage:
    return views.blueprint(asked.context, asked.branch, _flow(asked))


def _keys(asked: Asking) -> KeysPage:  # noqa: ARG001  # as all pages
    return views.keys()


def _nothing(asked: Asking, page: object) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {}


def _states(asked: Asking, page: object) -> Mapping[str, Any]:  # noqa: ARG001  # as all pages
    return {"worst": views.WORST_FIRST}


HOME = Page("home.html", _home, _states, lambda _: "headgate status")
FLOWS = Page("flows.html", _flows, _states, lambda _: "headgate status")
FLOW_PAGE = Page("flow.html", _flow_value, _flow_shown, lambda asked: f"headgate status {_flow(asked)}")
BLUEPRINT = Page("blueprint.html", _blueprint, _nothing, lambda asked: f"headgate status {_flow(asked)}")
DATASETS = Page("datasets.html", _catalogue, _states, lambda _: "headgate status")
DATASET_PAGE = Page("dataset.html", _dataset_value, _dataset_shown, lambda asked: f"headgate why {_dataset(asked)}")
HELP = Page("keys.html", _keys, _states, lambda _: "headgate --help")


def both(path: str, page: Page[Any]) -> list[Route]:
    """The routes of a page and of its twin. A twin's comes first: a name of a dataset has a dot, too."""

    def twin(request: Request) -> Response:
        request.state.is_twin = True
        return page(request)

    twin_path = "/index.json" if path == "/" else f"{path}{TWIN}"
    return [Route(twin_path, twin, methods=["GET"]), Route(path, page.__call__, methods=["GET"])]


ROUTES: list[Route] = [
    *both("/", HOME),
    *both("/flows", FLOWS),
    *both("/flows/{name}/blueprint", BLUEPRINT),
    *both("/flows/{name}", FLOW_PAGE),
    *both("/datasets", DATASETS),
    *both("/datasets/{name}", DATASET_PAGE),
    *both("/help/keys", HELP),
]

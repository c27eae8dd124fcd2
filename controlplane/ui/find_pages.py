"""Whatever has a name, by some letters of it: datasets and columns, dataflows, runs, pages and
actions. It is what the palette (Ctrl+K) shows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.model.answers.explore import SearchHit
from controlplane.core.rights import may_see_part
from controlplane.operations.explore.search import search
from controlplane.operations.inspect import past_runs
from controlplane.operations.inspect.hidden import visible
from controlplane.ui.page import Page, both, nothing
from controlplane.ui.page_request import PageRequest

SHOWN: Final = 8  # of a group
LONGEST: Final = 300  # characters that are looked for
RUNS: Final = 100  # that are looked through
PLACES: Final[Mapping[str, str]] = {
    "Home": "/",
    "Activity": "/activity",
    "Cost": "/cost",
    "Checks": "/checks",
    "Dataflows": "/flows",
    "Datasets": "/datasets",
    "Overdue datasets": "/datasets?is=overdue",
    "Failed datasets": "/datasets?state=failed",
    "Sources": "/sources",
    "Feeds": "/feeds",
    "Plan an edit": "/plan",
    "Branches": "/branches",
    "Create a branch": "/branches",
    "Query": "/query",
    "Glossary": "/help/keys#words",
    "Keyboard": "/help/keys",
    "Tutorial": "/help/tutorial",
    "Tokens": "/settings/tokens",
    "Maintenance": "/settings/care",
}
ACTIONS: Final[Mapping[str, str]] = {
    "retry": "Retry",
    "pause": "Pause",
    "resume": "Resume",
    "compute-again": "Recompute",
}


class PaletteHit(TypedDict):
    label: str
    hint: str
    href: str


class PaletteGroup(TypedDict):
    name: str
    items: list[PaletteHit]


class FindPage(TypedDict):
    """Names with all of the words, by kind."""

    query: str
    groups: list[PaletteGroup]


def _find(page_request: PageRequest) -> FindPage:
    query = page_request.query("q")[:LONGEST].strip()
    words = query.lower().split()
    datasets = _datasets(page_request, query) if words else []
    groups: list[tuple[str, list[PaletteHit]]] = [
        ("Datasets and columns", datasets),
        ("Dataflows", _flows(page_request, words) if words else []),
        ("Actions", _actions(page_request, datasets)),
        ("Runs", _runs(page_request, words) if words else []),
        ("Pages", [_hit(n, "", path) for n, path in PLACES.items() if _has(n, words)]),
    ]
    # Enter opens the first hit: that of the whole name
    groups.sort(key=lambda group: not _names(group[1], query))
    return {
        "query": query,
        "groups": [{"name": name, "items": hits[:SHOWN]} for name, hits in groups if hits],
    }


def _hit(label: str, hint: str, href: str) -> PaletteHit:
    return {"label": label, "hint": hint, "href": href}


def _names(hits: list[PaletteHit], query: str) -> bool:
    """Is the first hit the one of this name?"""
    return bool(hits) and hits[0]["label"].lower() == query.lower()


def _has(text: str, words: list[str]) -> bool:
    return all(word in text.lower() for word in words)


def _datasets(page_request: PageRequest, query: str) -> list[PaletteHit]:
    answer = search(page_request.context, page_request.branch, query, SHOWN)
    return [_dataset(hit) for hit in visible(page_request.context, answer["items"])]


def _dataset(hit: SearchHit) -> PaletteHit:
    columns = [match["text"] for match in hit["matches"] if match["field"] == "column"]
    hint = f"column {columns[0]}" if columns else hit["state"].replace("_", " ")
    return _hit(hit["dataset"], hint, f"/datasets/{hit['dataset']}")


def _flows(page_request: PageRequest, words: list[str]) -> list[PaletteHit]:
    with page_request.context.read() as tx:
        names = sorted(tx.blueprints.revisions(page_request.branch))
    visible_names = (name for name in names if may_see_part(page_request.context.principal, name))
    return [_hit(name, "dataflow", f"/flows/{name}") for name in visible_names if _has(name, words)]


def _actions(page_request: PageRequest, datasets: list[PaletteHit]) -> list[PaletteHit]:
    """For the best dataset. Each leads to the page that says what it would do."""
    if not datasets or page_request.why_not("operate"):
        return []
    name = datasets[0]["label"]
    hits = [
        _hit(f"{label} {name}", "shows first what it would do", f"/bulk?do={action}&on={name}")
        for action, label in ACTIONS.items()
    ]
    return [*hits, _hit(f"Query {name}", "", f"/query?table={name}")]


def _runs(page_request: PageRequest, words: list[str]) -> list[PaletteHit]:
    runs = past_runs.listing(page_request.context, page_request.branch, None, RUNS)["items"]
    return [
        _hit(run["reason"], run["state"], f"/activity/{quote(run['id'], safe='')}")
        for run in visible(page_request.context, runs)
        if _has(f"{run['id']} {run['reason']} {run['state']}", words)
    ]


def _command(page_request: PageRequest) -> str:
    query = page_request.query("q")[:LONGEST].strip()
    return f"headgate search -- {shlex.quote(query)}" if query else "headgate search --help"


FIND = Page("find.html", _find, nothing, _command, is_of_branch=False)
ROUTES: list[Route] = [*both("/find", FIND)]

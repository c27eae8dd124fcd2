"""The first rows of a dataset: a fragment that its page requests once the tab of data is open.

Rights come first, then the browser's own copy by its tag, then the cache of the service.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typing_extensions import TypedDict

from controlplane.core.errors import CorruptNode, NotFound
from controlplane.core.model.json_values import JsonValue
from controlplane.operations.inspect import audit, records
from controlplane.operations.inspect.records import RowSelection
from controlplane.ports.records import WantedRows
from controlplane.ui import page_rendering
from controlplane.ui.page import TWIN, dataset_of, wants_json
from controlplane.ui.page_request import PageRequest, page_request_of
from controlplane.ui.rows_cache import RowsCache

ROWS = 20
NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double"})
UNREADABLE = "these rows cannot be read now: the log says why"


class FirstRowsPage(TypedDict):
    """The first rows of a generation. `problem`: why there are none to be seen."""

    dataset: str
    generation: int
    columns: list[Mapping[str, Any]]
    items: list[dict[str, JsonValue]]
    problem: str | None


def first_rows(page_request: PageRequest) -> tuple[FirstRowsPage, str]:
    """Rows, and the tag of them that a browser keeps; no tag where they cannot be read. Raises
    NotFound, NotAllowed."""
    page_request.require("data")
    name, selected = dataset_of(page_request), _selection(page_request)
    if selected is None:
        return _rows_page(name, None, [], UNREADABLE), ""
    if not selected.selection.files:
        return _rows_page(name, selected, [], None), _tag(selected)
    try:
        _note(page_request, name, selected)
        text = _text(page_request, selected)
        items = cast("list[dict[str, JsonValue]]", json.loads(text))
    except (OSError, NotFound, CorruptNode, ValueError):
        return _rows_page(name, selected, [], UNREADABLE), ""
    return _rows_page(name, selected, items, None), _tag(selected)


def _selection(page_request: PageRequest) -> RowSelection | None:
    """None where a tree or a file's entry is damaged."""
    try:
        return records.first(
            page_request.context, page_request.branch, dataset_of(page_request), ROWS
        )
    except CorruptNode:
        return None


def _note(page_request: PageRequest, name: str, selected: RowSelection) -> None:
    """In the audit: a read of a cached copy is a read of the rows."""
    detail: Mapping[str, JsonValue] = {"generation": selected.generation, "limit": ROWS}
    audit.note_read(page_request.context, "page", page_request.branch, name, detail)


def _text(page_request: PageRequest, selected: RowSelection) -> bytes:
    cache: RowsCache = page_request.request.app.state.rows
    key = (page_request.context.namespace, selected.content)
    text = cache.get(key)
    if text is None:
        text = b"".join(page_request.services.render(selected.selection))
        cache.put(key, text)
    return text


def _tag(selected: RowSelection) -> str:
    release = page_rendering.environment().globals["release"]
    return f'W/"{release}-{selected.generation}-{selected.content.hex()[:32]}"'


def _rows_page(
    name: str,
    selected: RowSelection | None,
    items: list[dict[str, JsonValue]],
    problem: str | None,
) -> FirstRowsPage:
    selection: WantedRows | None = selected.selection if selected else None
    return {
        "dataset": name,
        "generation": selected.generation if selected else 0,
        "columns": list(selection.schema["fields"]) if selection else [],
        "items": items,
        "problem": problem,
    }


def _rows(request: Request) -> Response:
    page_request = page_request_of(request)
    page_request.require("view")
    page_request.require("data")
    name = dataset_of(page_request)
    sent = request.headers.get("if-none-match", "")
    if sent and not wants_json(request):
        selected = _selection(page_request)
        if selected is not None and sent == _tag(selected):
            _note(page_request, name, selected)
            return Response(status_code=304, headers=_headers(sent))
    page, tag = first_rows(page_request)
    if wants_json(request):
        return JSONResponse(page)
    shown = {"page": page, "asked": page_request, "numbers": NUMBERS}
    answer = page_rendering.page(request, "rows.html", shown, branch=page_request.branch)
    answer.headers.update(_headers(tag) if tag else {})
    return answer


def _headers(tag: str) -> dict[str, str]:
    """A browser asks each time whether its copy is still right, and with whose rights."""
    return {
        "ETag": tag,
        "Cache-Control": "private, no-cache",
        "Vary": "Cookie, Accept-Encoding, Sec-Fetch-Site",
    }


def _twin(request: Request) -> Response:
    request.state.is_twin = True
    return _rows(request)


ROUTES: list[Route] = [
    Route(f"/datasets/{{name}}/rows{TWIN}", _twin, methods=["GET"]),
    Route("/datasets/{name}/rows", _rows, methods=["GET"]),
]

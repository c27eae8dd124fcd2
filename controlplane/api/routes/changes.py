"""Changes of a dataset's rows since a generation, as streams for readers that keep a copy."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlencode

from anyio import to_thread
from fastapi import Depends, Query, Request, Response

from controlplane.api import auth, authentication
from controlplane.api.calls import Branch, Called, Dataset, is_head
from controlplane.api.content_tags import content_tag, is_named
from controlplane.api.routes.records import Negotiated, named, noted, sent, tagged
from controlplane.api.streams import Stream
from controlplane.core import rest
from controlplane.core.model import addresses
from controlplane.core.model.json_values import JsonObject
from controlplane.core.records import requested_columns
from controlplane.core.records.formats import MEDIA_TYPES
from controlplane.operations.inspect.row_changes import ChangesRequest, RowChanges
from controlplane.operations.inspect.row_changes import changes as changes_between

router = auth.router("data", "all")
ChangeFormat: TypeAlias = Literal["ndjson", "csv", "arrow", "parquet"]


def _selection(
    columns: Annotated[
        list[str] | None,
        Query(max_length=1_000, description="Names with commas between them; all by default."),
    ] = None,
    where: Annotated[
        str | None, Query(max_length=20_000, description="A condition on rows, in SQL.")
    ] = None,
) -> ChangesRequest:
    return ChangesRequest(requested_columns.names_of(columns or ()), where)


Selection: TypeAlias = Annotated[ChangesRequest, Depends(_selection)]


def _next(request: Request, since: int) -> list[tuple[str, str]]:
    """The parameters of the next request: changes behind `since`, of the same rows and in the same
    form."""
    parameters = [
        (k, v)
        for k, v in request.query_params.multi_items()
        if k in ("columns", "where", "compression")
    ]
    return [("since", str(since)), *parameters]


@router.responds(rest.CHANGES)
async def changes(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    format: ChangeFormat,
    since: Annotated[
        str,
        Query(max_length=100, description="A generation or a time with its zone; 0: from nothing."),
    ],
    negotiation: Negotiated,
    selection: Selection,
    until: Annotated[
        str | None, Query(max_length=100, description="As `since`; the newest by default.")
    ] = None,
) -> Response:
    """Rows that were added (`insert`) and removed (`delete`) between two generations, in
    `_change_type`, with the later one in `_generation`. `X-Generation` is that one, to send as
    `since` next; `Link` is the next request. Equal rows cancel, wherever they are. With `columns`
    rows are compared by these columns alone."""
    rendering = negotiation.rendering(format)

    def is_known(content: bytes) -> bool:
        return is_named(content_tag(content, rendering), negotiation.if_none_match)

    def look() -> RowChanges:
        first = None if since == "0" else addresses.point_of(since)
        last = None if until is None else addresses.point_of(until)
        return changes_between(
            call.context,
            branch,
            dataset,
            first,
            last,
            rendering=rendering,
            request=selection,
            is_known=is_known,
        )

    row_changes = await to_thread.run_sync(look, limiter=call.services.threads.users)
    headers = {
        "X-Since": str(row_changes.since),
        "X-Generation": str(row_changes.until),
        "Link": f'<{call.request.url.path}?{urlencode(_next(call.request, row_changes.until))}>; rel="next"',
        **tagged(content_tag(row_changes.content, rendering)),
    }
    if row_changes.selection is None:
        return Response(status_code=304, headers=headers)
    headers |= named(f"{dataset}.changes", addresses.generation_of(row_changes.until), rendering)
    media_type = MEDIA_TYPES[format]
    if is_head(call.request):
        return Response(media_type=media_type, headers=headers)
    what: JsonObject = {
        "since": row_changes.since,
        "until": row_changes.until,
        "format": format,
        "columns": list(selection.columns),
        "where": selection.where,
    }
    await noted(call.services, call.context, "changes", branch, dataset, what)
    pieces = call.services.render_changes(row_changes.selection)
    caller = authentication.caller(call.request).id
    # It may wait for a turn
    stream = Stream(call.services.streams, caller, pieces, call.services.threads.connections)
    return await sent(stream, call.request, headers, media_type)

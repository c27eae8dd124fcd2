"""Records of datasets as streams: rows of one generation, in five forms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from anyio import to_thread
from fastapi import Depends, Header, Query, Request, Response

from controlplane.api import auth, authentication
from controlplane.api.calls import Branch, Call, Called, Dataset, is_head
from controlplane.api.content_tags import content_tag, is_named
from controlplane.api.points import Number
from controlplane.api.problem_json import RequestRefused
from controlplane.api.services import Services
from controlplane.api.streams import Stream
from controlplane.core import rest
from controlplane.core.model import addresses
from controlplane.core.model.json_values import JsonObject, JsonValue
from controlplane.core.model.reads import How
from controlplane.core.records import requested_columns
from controlplane.core.records.formats import (
    MEDIA_TYPES,
    TEXTS,
    Compression,
    Format,
    coding_of,
    compression_fault,
)
from controlplane.operations.context import Context
from controlplane.operations.inspect import audit
from controlplane.operations.inspect import records as rows
from controlplane.operations.inspect.records import RecordsRequest
from controlplane.ports.records import Rendering

router = auth.router("data", "all")
MOST_ROWS = 2**53


def _point(
    generation: Number = None,
    at: Annotated[
        str | None,
        Query(
            max_length=100,
            description="A generation, or a time with its zone; the newest by default.",
        ),
    ] = None,
) -> addresses.Point | None:
    if generation is not None and at is not None:
        raise RequestRefused(
            "invalid-request", "generation and at both say which state is meant; send one of them"
        )
    if at is not None:
        return addresses.point_of(at)
    return None if generation is None else addresses.generation_of(generation)


def _selection(
    partition: Annotated[str | None, Query(max_length=20_000)] = None,
    columns: Annotated[
        list[str] | None,
        Query(max_length=1_000, description="Names with commas between them; all by default."),
    ] = None,
    where: Annotated[
        str | None, Query(max_length=20_000, description="A condition on rows, in SQL.")
    ] = None,
    offset: Annotated[int, Query(ge=0, le=MOST_ROWS)] = 0,
    limit: Annotated[int | None, Query(ge=0, le=MOST_ROWS)] = None,
) -> RecordsRequest:
    return RecordsRequest(
        partition, requested_columns.names_of(columns or ()), where, offset=offset, limit=limit
    )


@dataclass(frozen=True, slots=True)
class Negotiation:
    """What a client accepts: compression within a form, codings of a body, and content that it
    has."""

    compression: Compression | None
    accept_encoding: str | None
    if_none_match: str | None

    def rendering(self, format: Format) -> Rendering:
        fault = compression_fault(format, self.compression)
        if fault is not None:
            raise RequestRefused("invalid-request", fault)
        return Rendering(
            format, self.compression, coding_of(self.accept_encoding) if format in TEXTS else ""
        )


def _negotiation(
    compression: Annotated[
        Compression | None, Query(description="Of Arrow and Parquet, within.")
    ] = None,
    accept_encoding: Annotated[
        str | None, Header(max_length=1_000, include_in_schema=False)
    ] = None,
    if_none_match: Annotated[str | None, Header(max_length=4_000)] = None,
) -> Negotiation:
    return Negotiation(compression, accept_encoding, if_none_match)


Point: TypeAlias = Annotated[addresses.Point | None, Depends(_point)]
Selection: TypeAlias = Annotated[RecordsRequest, Depends(_selection)]
Negotiated: TypeAlias = Annotated[Negotiation, Depends(_negotiation)]


@router.responds(rest.RECORDS)
async def records(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    point: Point,
    selection: Selection,
    negotiation: Negotiated,
    format: Format = "json",
) -> Response:
    """Records of one committed generation, streamed in the order of partition keys. The ETag is
    that of the content, in any generation: with `If-None-Match`, data that did not change
    is answered with 304."""
    return await _of_call(
        call,
        branch,
        dataset,
        point=point,
        selection=selection,
        format=format,
        negotiation=negotiation,
    )


@router.responds(rest.RECORDS_FILE)
async def records_as(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    format: Format,
    point: Point,
    selection: Selection,
    negotiation: Negotiated,
) -> Response:
    """As `records`, by an address that ends as the name of a file does."""
    return await _of_call(
        call,
        branch,
        dataset,
        point=point,
        selection=selection,
        format=format,
        negotiation=negotiation,
    )


async def _of_call(
    call: Call,
    branch: str,
    dataset: str,
    *,
    point: addresses.Point | None,
    selection: RecordsRequest,
    format: Format,
    negotiation: Negotiation,
) -> Response:
    query = RecordsQuery(
        branch,
        dataset,
        point,
        request=selection,
        rendering=negotiation.rendering(format),
        caller=authentication.caller(call.request).id,
        if_none_match=negotiation.if_none_match,
    )
    return await answered(call.services, call.context, call.request, query)


@dataclass(frozen=True, slots=True)
class RecordsQuery:
    """All that one answer with records depends on. `caller`: whose streams are counted together."""

    branch: str
    dataset: str
    point: addresses.Point | None
    request: RecordsRequest
    rendering: Rendering
    caller: str
    if_none_match: str | None

    def audit_entry(self, generation: int) -> JsonObject:
        """What the audit says about it."""
        request = self.request
        return {
            "generation": generation,
            "format": self.rendering.format,
            "partition": request.partition,
            "columns": list(request.columns),
            "where": request.where,
            "offset": request.offset,
            "limit": request.limit,
        }


async def answered(
    services: Services, context: Context, request: Request, query: RecordsQuery
) -> Response:
    """The records, or 304, or headers alone for HEAD."""

    def is_known(content: bytes) -> bool:
        return is_named(content_tag(content, query.rendering), query.if_none_match)

    def look() -> rows.RowSelection | rows.UnchangedRecords:
        return rows.records(
            context,
            query.branch,
            query.dataset,
            request=query.request,
            rendering=query.rendering,
            point=query.point,
            is_known=is_known,
        )

    read_records = await to_thread.run_sync(look, limiter=services.threads.users)
    headers = {
        "X-Generation": str(read_records.generation),
        **tagged(content_tag(read_records.content, query.rendering)),
    }
    if isinstance(read_records, rows.UnchangedRecords):
        return Response(status_code=304, headers=headers)
    headers |= {
        "X-Rows": str(read_records.rows),
        **named(query.dataset, query.point, query.rendering),
    }
    media_type = MEDIA_TYPES[query.rendering.format]
    if is_head(request):
        return Response(media_type=media_type, headers=headers)
    await noted(
        services,
        context,
        "records",
        query.branch,
        query.dataset,
        query.audit_entry(read_records.generation),
    )
    pieces = services.render(read_records.selection)
    return await sent(
        Stream(services.streams, query.caller, pieces, services.threads.records),
        request,
        headers,
        media_type,
    )


async def noted(
    services: Services,
    context: Context,
    how: How,
    branch: str,
    dataset: str,
    what: Mapping[str, JsonValue],
) -> None:
    """In the audit, before the first row."""

    def note() -> None:
        audit.note_read(context, how, branch, dataset, what)

    await to_thread.run_sync(note, limiter=services.threads.users)


async def sent(
    stream: Stream, request: Request, headers: Mapping[str, str], media_type: str
) -> Response:
    try:
        return await stream.response(request, headers, media_type)
    except OSError as error:
        raise RequestRefused("unavailable", str(error)) from error


def tagged(tag: str) -> dict[str, str]:
    return {"ETag": tag, "Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}


def named(dataset: str, point: addresses.Point | None, rendering: Rendering) -> dict[str, str]:
    """As what a browser stores it: `shop.orders@12.csv`."""
    state = "" if point is None else f"@{point}".replace(":", "")
    name = f"{dataset}{state}.{rendering.format}"
    coded = {"Content-Encoding": rendering.coding} if rendering.coding else {}
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
        **coded,
    }

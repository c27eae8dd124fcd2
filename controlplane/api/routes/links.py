"""Making, listing and revoking signed links; and the one route that a link opens, without a
token."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote

from anyio import to_thread
from fastapi import Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from controlplane import logs
from controlplane.api import auth, authentication
from controlplane.api.calls import Called, JsonAnswer, answer, branch_of, dataset_of
from controlplane.api.problem_json import RequestRefused, request_id
from controlplane.api.routes import records
from controlplane.api.routes.records import Negotiation, RecordsQuery
from controlplane.core import rest
from controlplane.core.errors import BadColumns, BadCondition, NotFound, WrongSignature
from controlplane.core.model.access import Token
from controlplane.core.model.answers.links import LinksAnswer, NewLinkAnswer
from controlplane.core.model.links import Link
from controlplane.core.records.formats import compression_fault
from controlplane.operations.desired import links
from controlplane.operations.desired.links import NewLink

router = auth.router("data", "all")
signed = auth.Routes(route_class=auth.EncodedRoute)
log = logs.get("links")


@router.answers(rest.CREATE_LINK)
def create(call: Called, new: NewLink) -> JsonAnswer[NewLinkAnswer]:
    """Make a link; keep its address, which is not stored. So a repeat with an Idempotency-Key
    cannot be answered."""
    if call.repeat is not None:
        raise RequestRefused(
            "not-supported", "an Idempotency-Key cannot go with a link: its address is shown once"
        )
    fault = compression_fault(new.format, new.compression)
    if fault is not None:
        raise RequestRefused("invalid-request", fault)
    branch_of(call, new.branch)
    dataset_of(call, new.dataset)
    link = links.create(call.context, authentication.caller(call.request), new)
    signature = links.signature(call.services.s3_secret, call.context.namespace, link)
    base = str(call.request.base_url).rstrip("/")
    url = f"{base}/v1/links/{link.id}/{quote(_file(link))}?signature={signature}"
    return answer({**links.entry_of(link), "url": url}, 201)


@router.answers(rest.LINKS)
def listing(call: Called) -> JsonAnswer[LinksAnswer]:
    """The links of this token, or all for who administers, without their addresses."""
    return answer(
        {"items": links.listing(call.context, authentication.caller(call.request)), "next": None}
    )


@router.responds(rest.REVOKE_LINK)
def revoke(call: Called, link: Annotated[str, Path(pattern=r"^[0-9a-f]{1,64}$")]) -> Response:
    """End a link now."""
    links.revoke(call.context, authentication.caller(call.request), link)
    return Response(status_code=204)


@signed.responds(rest.READ_LINK)
async def read(
    request: Request,
    link: Annotated[str, Path(max_length=100)],
    file: Annotated[str, Path(max_length=500)],
    signature: Annotated[str, Query(max_length=200)] = "",
    accept_encoding: Annotated[
        str | None, Header(max_length=1_000, include_in_schema=False)
    ] = None,
    if_none_match: Annotated[str | None, Header(max_length=4_000)] = None,
) -> Response:
    """The records that a link fixes. Other parameters are ignored. `If-None-Match` is answered as
    for `records`."""
    services = authentication.services(request)

    def look() -> tuple[Link, Token]:
        return links.find(services.store, services.s3_secret, link, signature)

    try:
        signed_link, maker = await to_thread.run_sync(look, limiter=services.threads.users)
    except WrongSignature:
        services.counters.add("token_failures")
        raise
    if file != _file(signed_link):
        raise NotFound(f"this link is called {_file(signed_link)}")
    log.info(
        "link read",
        link=signed_link.id,
        dataset=signed_link.dataset,
        branch=signed_link.branch,
        request_id=request_id(request),
    )
    point, records_request = links.request_of(signed_link)
    negotiation = Negotiation(signed_link.compression, accept_encoding, if_none_match)
    query = RecordsQuery(
        signed_link.branch,
        signed_link.dataset,
        point,
        request=records_request,
        rendering=negotiation.rendering(signed_link.format),
        caller=f"link {signed_link.id}",
        if_none_match=if_none_match,
    )
    context = replace(services.context(maker, request_id(request)), actor=f"link {signed_link.id}")
    try:
        response = await records.answered(services, context, request, query)
    except (BadColumns, BadCondition) as e:  # whose words name columns that the link does not read
        raise NotFound(
            "the dataset has no more the columns that this link reads; ask for another link"
        ) from e
    if isinstance(response, StreamingResponse):
        response.body_iterator = services.token_watch.while_live(
            maker.id, response.body_iterator, maker.principal
        )
    with suppress(KeyError):
        del response.headers["X-Rows"]  # of all rows, also those that the link does not read
    return response


def _file(link: Link) -> str:
    """Tools take the name of a table from the end of an address."""
    return f"{link.dataset}.{link.format}"

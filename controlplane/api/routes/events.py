"""Events as a stream that can be taken up again, and metrics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Annotated

from anyio import to_thread
from fastapi import Header, Query, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from controlplane.api import auth
from controlplane.api.authentication import caller
from controlplane.api.calls import Call, Called, branch_of, is_head
from controlplane.api.event_feed import STILL_HERE, EventFeed, EventFeeds
from controlplane.api.metrics import CONTENT_TYPE, lags_of, render
from controlplane.core import rest
from controlplane.core.model.branches import MAIN
from controlplane.operations.context import Context
from controlplane.operations.inspect import hidden, overview

DATA, END = b"\ndata: ", b"\n\n"
STREAM = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
EventId = Annotated[int | None, Query(ge=0, le=2**53)]

router = auth.router("view", "all")


@router.responds(rest.EVENTS)
async def events(
    call: Called,
    after: EventId = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
    follow: bool = True,
    branch: Annotated[str, Query()] = MAIN,
) -> Response:
    """Events of a branch, and those of no branch, after an id (`Last-Event-ID` wins over `after`)
    or from now on; `follow=false` ends at the newest."""
    of = branch_of(call, branch)
    start = last_event_id if last_event_id is not None else after
    feeds = call.request.app.state.feeds
    assert isinstance(feeds, EventFeeds)
    feed = feeds.of(call.context.namespace)
    if is_head(call.request):
        return Response(media_type=STREAM, headers=HEADERS)
    parts = feed.follow(of, start) if follow else feed.until_newest(of, start)
    shown_parts = _visible_parts(call, of, parts) if call.context.principal.within else parts
    return _Stream(feed, caller(call.request).id, shown_parts)


async def _visible_parts(
    call: Call, branch: str, parts: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Remove events of hidden things, which may have come while the stream went on. A comment
    stands for those, as for events of other branches."""
    async for part in parts:
        if DATA not in part:
            yield part
            continue
        limiter = call.services.threads.events
        context = await to_thread.run_sync(
            hidden.names_redacted, call.context, [branch], limiter=limiter
        )
        yield b"".join(_shown(context, event) for event in part.split(END) if event) or STILL_HERE


def _shown(context: Context, event: bytes) -> bytes:
    head, _, data = event.partition(DATA)
    record = json.loads(data)
    if not overview.is_visible(context, record):
        return b""
    return head + DATA + json.dumps(hidden.visible(context, record)).encode() + END


class _Stream(StreamingResponse):
    """Has a place in the feed for as long as it is sent, however it ends."""

    def __init__(self, feed: EventFeed, token: str, parts: AsyncIterator[bytes]) -> None:
        super().__init__(parts, media_type=STREAM, headers=HEADERS)
        self._feed, self._token = feed, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._feed.place(self._token):
            await super().__call__(scope, receive, send)


@router.responds(rest.METRICS, dependencies=auth.needs("view"))
async def metrics(call: Called) -> Response:
    """Counters and gauges for Prometheus."""
    text = await to_thread.run_sync(_metrics, call, limiter=call.services.threads.probes)
    return Response(text, media_type=CONTENT_TYPE)


def _metrics(call: Call) -> bytes:
    status = overview.status(call.context, "main")
    datasets = [dataset for flow in status["dataflows"] for dataset in flow["datasets"]]
    targets = [target for flow in status["dataflows"] for target in flow["targets"]]
    states = Counter[str](thing["state"] for thing in (*datasets, *targets))
    late_s = max((d["listing"]["behind_s"] for d in datasets if "listing" in d), default=0.0)
    app_services, ctx = call.services, call.context
    return render(
        app_services.store,
        app_services.counters,
        states,
        ctx.failing_units,
        late_s,
        lags=lags_of(datasets),
        namespace=ctx.namespace,
        exports=app_services.exports,
    )

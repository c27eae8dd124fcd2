"""Events as a stream that can be taken up again, and metrics."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import Header, Query, Response
from fastapi.responses import StreamingResponse

from controlplane.api import auth
from controlplane.api.calls import Call, Called
from controlplane.api.metrics import CONTENT_TYPE, render
from controlplane.operations import look

HEARTBEAT_S = 15.0
LOOK_AGAIN_S = 3.0  # another process may share the database, and its notices do not reach us
BATCH = 500
EventId = Annotated[int | None, Query(ge=0, le=2**53)]

router = auth.router()


@router.get("/v1/events")
def events(
    call: Called,
    after: EventId = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=2**53)] = None,
    follow: bool = True,
) -> Response:
    """Events after an id (`Last-Event-ID` wins over `after`), or from now on; `follow=false` ends at the newest."""
    start = last_event_id if last_event_id is not None else after
    if start is None:
        start = _newest(call)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_stream(call, start, follow), media_type="text/event-stream", headers=headers)


def _newest(call: Call) -> int:
    with call.services.store.read(call.context.namespace) as tx:
        return tx.last_event()


def _stream(call: Call, after: int, follow: bool) -> Iterator[str]:
    """Everything after an id, then whatever comes, woken by changes; a comment now and then shows that we are there."""
    wake, stopping = call.services.wake, call.services.stopping
    yield ": events\n\n"
    spoke = time.monotonic()
    while not stopping.is_set():
        seen = wake.count
        batch = look.events(call.context, after, BATCH)
        for event in batch:
            after = event["id"]
            yield _event(event)
        if not batch and not follow:
            return
        if batch or time.monotonic() - spoke > HEARTBEAT_S:
            spoke = time.monotonic()
            yield ": still here\n\n"
        if not batch:
            wake.wait(LOOK_AGAIN_S, seen)


def _event(event: dict[str, Any]) -> str:
    """JSON has no line breaks outside of its strings, and none inside, so one data line is enough."""
    return f"id: {event['id']}\nevent: {event['kind']}\ndata: {json.dumps(event)}\n\n"


@router.get("/metrics")
def metrics(call: Called) -> Response:
    """Counters and gauges for Prometheus."""
    status = look.status(call.context, "main")
    things = [thing for flow in status["dataflows"] for thing in (*flow["datasets"], *flow["targets"])]
    states = Counter(thing["state"] for thing in things)
    late_s = max((t["listing"]["behind_s"] for t in things if "listing" in t), default=0.0)
    found = call.services
    text = render(found.store, found.counters, states, found.troubles, late_s)
    return Response(text, media_type=CONTENT_TYPE)

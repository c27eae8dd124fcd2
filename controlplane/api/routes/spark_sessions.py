"""Spark Connect sessions: opening one over committed datasets, those that are open, and ending
one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated

from anyio import to_thread
from fastapi import Path, Response
from pydantic import Field

from controlplane.api import auth, authentication
from controlplane.api.calls import Branch, Call, Called, ClosedBody, JsonAnswer, answer
from controlplane.api.looks import waiting
from controlplane.api.points import moment
from controlplane.api.problem_json import RequestRefused
from controlplane.core import rest
from controlplane.core.errors import HeadgateError
from controlplane.core.model.access import Token
from controlplane.core.model.answers.spark_sessions import (
    NewSparkSessionAnswer,
    SparkSessionsAnswer,
)
from controlplane.services.sessions import sessions as spark_sessions

HOUR_S = 3_600.0
LONGEST_S = 24 * HOUR_S
LOOK_S = 0.5

router = auth.router("edit")
_watching: set[asyncio.Task[None]] = set()  # the event loop itself does not keep tasks


class NewSparkSession(ClosedBody):
    """`datasets`: names, also with a point behind `@`, and patterns such as `shop.*`; all of them
    where none is given. `at`: the time that is meant of names without a point."""

    datasets: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        [], max_length=1_000
    )
    at: str | None = Field(None, max_length=100)
    ttl_s: float = Field(HOUR_S, gt=0, le=LONGEST_S)


@router.answers(rest.OPEN_SPARK_SESSION)
async def create(
    call: Called, branch: Branch, new: NewSparkSession
) -> JsonAnswer[NewSparkSessionAnswer]:
    """Open a session with datasets as views. It can run any code on the service's machine, as
    transforms can, so it needs `edit`, which has `data`. It ends after `ttl_s`, or with the token
    that opened it. Its address is shown once."""
    if call.repeat is not None:
        raise RequestRefused(
            "not-supported",
            "an Idempotency-Key cannot go with a session: its address is shown once",
        )
    at = moment(new.at)

    token = authentication.caller(call.request)

    def work() -> NewSparkSessionAnswer:
        sessions = call.services.spark_sessions
        return spark_sessions.begin(
            call.context, sessions, branch, new.datasets, at, new.ttl_s, token=token.id
        )

    opened = await waiting(call, work, may_wait=True)
    watching = asyncio.create_task(_end_with_token(call, token, opened["id"]))
    _watching.add(watching)
    watching.add_done_callback(_watching.discard)
    return answer(opened, 201)


async def _end_with_token(call: Call, token: Token, id: str) -> None:
    """Look at both now and then, until one of them is over."""
    sessions, threads = call.services.spark_sessions, call.services.threads.events
    with call.services.token_watch.watch(token.id, token.principal) as has_ended:
        while not has_ended() and not call.services.stopping.is_set():
            await asyncio.sleep(LOOK_S)
            if not await to_thread.run_sync(sessions.is_open, id, limiter=threads):
                return
        if not has_ended():
            return  # this process ends: sessions of its own do with it, and pods go on
    # Threads are over; or the cluster does not answer, and is asked again
    with suppress(RuntimeError, HeadgateError):
        await to_thread.run_sync(sessions.end, id, limiter=threads)


@router.answers(rest.SPARK_SESSIONS)
def listing(call: Called) -> JsonAnswer[SparkSessionsAnswer]:
    """The sessions of the caller, or all for who administers, without their addresses."""
    return answer(
        {"items": spark_sessions.listing(call.context, call.services.spark_sessions), "next": None}
    )


@router.responds(rest.END_SPARK_SESSION)
def end(call: Called, session: Annotated[str, Path(pattern=r"^[0-9a-f]{1,64}$")]) -> Response:
    """End a session now; queries that run in it end, too."""
    spark_sessions.end(call.context, call.services.spark_sessions, session)
    return Response(status_code=204)

"""Between the planes: claim, heartbeat, report (docs/protocol.md). Open to drivers' tokens only.

Plain ASGI: a `run` serves its worker and driver from here alone, and does not wait for a framework
to load.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict, get_args
from weakref import WeakValueDictionary

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from controlplane.api import problem_json
from controlplane.api.authentication import CHALLENGE, authenticate, require_driver
from controlplane.api.driver_services import DriverServices
from controlplane.api.problem_json import RequestRefused
from controlplane.core.errors import HeadgateError
from controlplane.core.model.access import Token
from controlplane.core.model.tasks import SIZES, Size
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.work import claims, reports
from dataplane.contract.claims import Claim
from dataplane.contract.kinds import Kind

PREFIX = "/v1/driver/"
WAIT_LIMIT_S = 25.0
KNOWN_S = 0.5  # for which a token is known to live, and an empty queue to be empty
LOOK_AGAIN_S = 5.0  # another process may share the database, and its notices do not reach us
WITHOUT = 256  # dataflows that a claim may leave out
KINDS = get_args(Kind)
ID = re.compile(r"[!-~]{1,200}")
MOST = 1_000  # kinds, sizes and attempts in one request


class SharedPoll:
    """Polls the queue once after each change, for all claims of a driver that wait for the same
    kinds of work. After a poll that was empty the others do not poll."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._lock, self._monotonic = threading.Lock(), monotonic
        # The last poll that was empty: the count of changes, and the time
        self._empty: tuple[int, float] | None = None

    def claim(self, count: int, poll: Callable[[], Claim | None]) -> Claim | None:
        """`count` of changes, read before: work that came with a later one is not missed."""
        with self._lock:
            if self._is_known_empty(count):
                return None
            polled_at = self._monotonic()
            work = poll()
            self._empty = None if work else (count, polled_at)
            return work

    def _is_known_empty(self, count: int) -> bool:
        if self._empty is None:
            return False
        count_then, polled_at = self._empty
        return count <= count_then and self._monotonic() - polled_at < KNOWN_S


@dataclass(frozen=True, slots=True)
class DriverCall:
    """One request of a driver."""

    services: DriverServices
    context: Context
    token: Token
    body: dict[str, Any]
    hung_up: threading.Event  # set when the driver has hung up: it is dead, or will ask again
    at: float  # when it came, by `time.monotonic`
    polls: WeakValueDictionary[Hashable, SharedPoll]

    @property
    def driver(self) -> str:
        return self.token.subject

    def take(self, name: str, is_fine: Callable[[Any], bool], default: Any = None) -> Any:
        """A field of the body, if it has the shape that it must have."""
        value = self.body.get(name, default)
        if not is_fine(value):
            raise RequestRefused(
                "invalid-request", f"body.{name} is missing or not as docs/protocol.md says"
            )
        return value


class DriverApp:
    """The routes below /v1/driver/."""

    def __init__(self, services: DriverServices) -> None:
        self._services = services
        # Of the claims that wait at present
        self._polls: WeakValueDictionary[Hashable, SharedPoll] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except HeadgateError as error:
            response = problem_json.of_error(error, request)
        except HTTPException as error:
            response = problem_json.of_http(error, request)
        except OSError as error:
            self._services.note_unknown_call()
            response = problem_json.of_outage(error, request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        threads = self._services.threads
        token = await to_thread.run_sync(
            authenticate, self._services, request, limiter=threads.drivers
        )
        require_driver(self._services, token)
        self._services.note_call(token.subject)
        handle = ROUTES.get(request.url.path)
        if handle is None:
            raise HTTPException(404, "Not Found")
        if request.method != "POST":
            raise HTTPException(405, "Method Not Allowed", {"Allow": "POST"})
        came, is_disconnected, raw = time.monotonic(), threading.Event(), await request.body()
        context = self._services.context(token, problem_json.request_id(request))

        def work() -> Response:  # decoding megabytes is nothing for the event loop
            body = _decoded(raw)
            call = DriverCall(
                self._services,
                context,
                token,
                body,
                hung_up=is_disconnected,
                at=came,
                polls=self._polls,
            )
            return handle(call)

        watching = asyncio.ensure_future(
            self._watch(request.receive, is_disconnected, token.namespace)
        )
        try:
            limiter = threads.claims if handle is _claim else threads.drivers
            return await to_thread.run_sync(work, limiter=limiter)
        finally:
            watching.cancel()

    async def _watch(
        self, receive: Receive, is_disconnected: threading.Event, namespace: str
    ) -> None:
        """Notice that the driver hangs up, so that no work goes to a dead one."""
        while (await receive())["type"] != "http.disconnect":
            pass
        is_disconnected.set()
        self._services.wake.of(namespace).notify()


def _decoded(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise RequestRefused("invalid-request", "the body is not a JSON object")
    return body


class ClaimLimits(TypedDict):
    """The tasks that a driver or worker takes, beside their kinds (`claims.claim`)."""

    sizes: list[Size]
    without: list[str]
    takes_packages: bool


def _claim(call: DriverCall) -> Response:
    """One attempt's work; 204 if there is none within `wait_s`."""
    contract = call.take("contract", _is_count)
    kinds = call.take("kinds", lambda v: _are_of(v, KINDS))
    wait_s = call.take("wait_s", lambda v: type(v) in (int, float) and 0 <= v <= WAIT_LIMIT_S, 0)
    sizes = call.take("sizes", lambda v: _are_of(v, SIZES), list(SIZES))
    without = call.take("without", _are_names, [])
    takes_packages = call.take("takes_packages", lambda v: isinstance(v, bool), True)
    chosen = map(frozenset, (kinds, sizes, without))
    signature = (call.context.namespace, call.driver, takes_packages, *chosen)
    shared_poll = call.polls.setdefault(signature, SharedPoll())
    limits: ClaimLimits = {
        "sizes": sizes,
        "without": without,
        "takes_packages": takes_packages,
    }
    look = partial(_look, call, contract, kinds, limits)
    work = _wait_for(call, wait_s, lambda count: shared_poll.claim(count, look))
    call.services.counters.add("claims", "work" if work else "nothing")
    return JSONResponse(work) if work else Response(status_code=204)


def _look(call: DriverCall, contract: int, kinds: list[Kind], limits: ClaimLimits) -> Claim | None:
    lake, allowed_kinds = call.services.lake.uri, call.services.kinds
    served_kinds = (
        kinds if allowed_kinds is None else [kind for kind in kinds if kind in allowed_kinds]
    )
    if not served_kinds or tokens.is_draining(call.token):
        return None
    return claims.claim(call.context, call.driver, contract, served_kinds, lake=lake, **limits)


def _wait_for(call: DriverCall, wait_s: float, look: Callable[[int], Claim | None]) -> Claim | None:
    """Look, then wait until something changed or the time is up. `look` takes the count of changes
    before it. Holds no transaction while it waits. A token that has ended meanwhile gets no
    work."""
    end, noted_at = call.at + wait_s, call.at
    wake, stopping = call.services.wake.of(call.context.namespace), call.services.stopping
    while not stopping.is_set() and not call.hung_up.is_set():
        count = wake.count
        if (now := time.monotonic()) - noted_at > KNOWN_S:
            _require_live(call)
            noted_at = now
        work = look(count)
        left = end - time.monotonic()
        if work is not None or left <= 0:
            return work
        wake.wait(min(left, LOOK_AGAIN_S), count)
    raise RequestRefused("unavailable", "the control plane is ending", {"Retry-After": "2"})


def _require_live(call: DriverCall) -> None:
    if not tokens.is_live(call.services.store, call.token.id):
        raise RequestRefused("unauthenticated", "this token has ended", CHALLENGE)


def _heartbeat(call: DriverCall) -> Response:
    """Extend leases; the answer lists fenced attempts, and whether the driver has to end."""
    attempts = call.take(
        "attempts", lambda v: isinstance(v, list) and len(v) <= MOST and all(map(_is_id, v))
    )
    if call.take("spark", lambda v: isinstance(v, bool), False):
        call.services.has_spark(call.driver)
    drain = tokens.is_draining(call.token)
    return JSONResponse(claims.heartbeat(call.context, call.driver, attempts, drain=drain))


def _report(call: DriverCall) -> Response:
    """Results of an attempt, task by task. Repeating a report is harmless."""
    attempt = call.take("attempt", _is_id)
    results = call.take("results", lambda v: isinstance(v, list))
    measures = call.body.get("measures")
    answer = reports.report(
        call.context, call.driver, attempt, results, lake=call.services.lake, measures=measures
    )
    return JSONResponse(answer)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= WITHOUT and all(map(_is_id, value))


def _is_id(value: Any) -> bool:
    """Ours are 32 hexadecimal digits. Others are merely unknown, but fit into a database."""
    return isinstance(value, str) and ID.fullmatch(value) is not None


def _are_of(value: Any, allowed: Sequence[str]) -> bool:
    return isinstance(value, list) and 0 < len(value) <= MOST and all(v in allowed for v in value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53


ROUTES: dict[str, Callable[[DriverCall], Response]] = {
    PREFIX + "claim": _claim,
    PREFIX + "heartbeat": _heartbeat,
    PREFIX + "report": _report,
}

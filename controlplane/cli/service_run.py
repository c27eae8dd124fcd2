"""A run through a service: hand it the blueprints, wait while it works, and answer as `run`
does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controlplane.cli import once, sources
from controlplane.cli.session import Service
from controlplane.cli.signals import interruptible
from controlplane.core.errors import HeadgateError

if TYPE_CHECKING:
    from controlplane.client import Headgate
    from controlplane.core.model.answers import RunAnswer, RunBegun, RunProgress

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 1.0  # between two looks
# Before a service that does not answer is given up: it may start again
LOST_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
MOST_KEYS = 20_000  # of tasks in one request


class ServiceEnded(HeadgateError):
    """A service that was waited for does not answer any more."""

    code = "service-ended"


@dataclass(frozen=True, slots=True)
class Moving:
    """How far a service is, as progress bars want it."""

    under_way: int
    states: Mapping[str, Any]
    tasks_left: Mapping[str, int] = field(default_factory=dict)
    publishing: int = 0
    spark_starting_s: float | None = None


class Waiting:
    """For dataflows that a service works on. `pause` waits for so many seconds."""

    def __init__(
        self,
        service: Service,
        client: Headgate,
        branch: str,
        on_progress: Callable[[Any], None],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service, self._client, self._branch = service, client, branch
        self._on_progress, self._pause = on_progress, pause

    def settled(self, flows: Sequence[str], since: int) -> RunProgress:
        """How they stand once nothing of them moves any more. Raises Interrupted, ServiceEnded."""
        pause_s = FIRST_PAUSE_S
        with _going_on(self._service):
            while True:
                progress = self._look(flows, since)
                if progress["settled"]:
                    return progress
                self._on_progress(_moving(progress))
                self._pause(pause_s)
                pause_s = min(pause_s * 1.5, LONGEST_PAUSE_S)

    def _look(self, flows: Sequence[str], since: int) -> RunProgress:
        """The progress. Repeats the request for a while where the service does not answer."""
        import httpx2

        for pause_s in LOST_PAUSES_S:
            try:
                return self._client.run_progress(flows, branch=self._branch, since=since)
            except httpx2.TransportError:
                self._pause(pause_s)
        try:
            return self._client.run_progress(flows, branch=self._branch, since=since)
        except httpx2.TransportError as error:
            raise ended(self._service) from error


def make(
    service: Service, client: Headgate, request: once.RunRequest, waiting: Waiting, *, since: float
) -> RunAnswer:
    """The JSON of `run`, for the service's work. `since` is the monotonic time from which `wall_s`
    counts."""
    documents = sources.as_documents(request.texts)
    started = client.begin_run(
        documents, branch=request.branch, accept_deletes=request.accept_deletes
    )
    flows = list(started["revisions"])
    progress = waiting.settled(flows, started["since"])
    with _going_on(service):
        retried = _retried(client, request.branch, started)
    if retried:
        progress = waiting.settled(flows, started["since"])
    return once.answer(progress, spark_started=progress["spark_started"], since=since)


def _retried(client: Headgate, branch: str, started: RunBegun) -> int:
    """Tasks that had failed before, are still wanted, and are tried again: once."""
    count = 0
    for flow, keys in started["failed"].items():
        for start in range(0, len(keys), MOST_KEYS):
            count += client.retry(flow, branch=branch, tasks=keys[start : start + MOST_KEYS])[
                "retried"
            ]
    return count


def ended(service: Service) -> ServiceEnded:
    return ServiceEnded(
        f"{service.words} does not answer any more: what it finished is kept; start it again, and repeat this command"
    )


@contextmanager
def _going_on(service: Service) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the waiting, and not the work."""
    try:
        with interruptible():
            yield
    except KeyboardInterrupt:
        hint = "`headgate wait` waits for it again, `headgate pause` stops it"
        raise once.Interrupted(f"{service.words} goes on with it: {hint}") from None


def _moving(progress: RunProgress) -> Moving:
    states = {
        thing["name"]: thing["state"] for thing in (*progress["datasets"], *progress["targets"])
    }
    tasks_left = {d["name"]: d["tasks_left"] for d in progress["datasets"] if "tasks_left" in d}
    starting_s = progress.get("spark_starting_s")
    return Moving(progress["under_way"], states, tasks_left, spark_starting_s=starting_s)

"""One run: store blueprints, list their sources, retry what failed, work until nothing is left, and
report."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controlplane.cli import failures, sources
from controlplane.cli.session import Running
from controlplane.cli.signals import outlast
from controlplane.cli.sources import BlueprintText
from controlplane.core.errors import HeadgateError

if TYPE_CHECKING:
    from controlplane.core.model.answers import RunAnswer, RunBegun, RunSummary
    from controlplane.operations.context import Context


class Interrupted(HeadgateError):
    """A run was interrupted."""

    code = "interrupted"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """The blueprints and options of a run."""

    texts: Sequence[BlueprintText]
    branch: str = "main"
    accept_deletes: bool = False


def make(
    server: Running, request: RunRequest, on_progress: Callable[[Any], None], *, since: float
) -> RunAnswer:
    """The JSON of `run`. `since` is the monotonic time from which `wall_s` counts. Raises
    Interrupted."""
    from controlplane.operations.desired import run_start
    from controlplane.operations.inspect import overview

    context = server.context("run")
    drivers = server.drivers_started
    sent = sources.as_sources(request.texts)
    started = run_start.begin(context, request.branch, sent, accept_deletes=request.accept_deletes)
    flows = list(started["revisions"])
    again = _retrying(context, request.branch, started)
    state = _in_thread(lambda: server.settle(flows, request.branch, on_progress, again))
    if server.stopping.is_set() and state not in failures.FINE:
        raise Interrupted(
            "told to end before all was up to date: what was finished is kept, the next run goes on"
        )
    done = overview.summary(context, request.branch, flows, started["since"])
    return answer(done, spark_started=server.drivers_started > drivers, since=since)


def answer(done: RunSummary, *, spark_started: bool, since: float) -> RunAnswer:
    """The answer of a run, in this process or through a service."""
    return {
        "state": done["state"],
        "tasks": done["tasks"],
        "spark_started": spark_started,
        "wall_s": round(time.monotonic() - since, 3),
        "datasets": done["datasets"],
        "targets": done["targets"],
        "errors": done["errors"],
    }


def _retrying(context: Context, branch: str, started: RunBegun) -> Callable[[], bool]:
    """Retries, once, the tasks that had failed before and are still wanted: tasks that the new
    listings replaced are not."""
    from controlplane.operations.desired import controls

    stuck = {flow: frozenset(map(bytes.fromhex, keys)) for flow, keys in started["failed"].items()}

    def again() -> bool:
        counts = [
            controls.retry(context, branch, flow, among=keys)["retried"]
            for flow, keys in stuck.items()
        ]
        stuck.clear()
        return any(counts)

    return again


def _in_thread(work: Callable[[], str]) -> str:
    """Work away from the main thread, so that a signal's handler never holds a lock that the work
    holds."""
    raised: list[BaseException] = []
    answers: list[str] = []
    over = threading.Event()

    def target() -> None:
        try:
            answers.append(work())
        except BaseException as error:  # noqa: BLE001  # raised again in the main thread
            raised.append(error)
        finally:
            over.set()

    threading.Thread(target=target, name="run", daemon=True).start()
    outlast(over.wait)
    if raised:
        raise raised[0]
    return answers[0]

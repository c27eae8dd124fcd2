"""Tests of the channels that alerts are sent to."""

from __future__ import annotations

import time
from collections.abc import Mapping

from anyio import to_thread

from controlplane.api import auth
from controlplane.api.calls import Branch, Call, Called, JsonAnswer, answer, target_of
from controlplane.api.routes.operate import Wish
from controlplane.core import rest
from controlplane.core.model.answers import ConnectionFault, NotifyAnswer, NotifyEntry
from controlplane.operations.alerts import trial
from controlplane.operations.alerts.trial import Trial
from dataplane.contract.results import TaskError

router = auth.router("operate")
ANSWER_S = 60.0
LOOK_AGAIN_S = 2.0  # another process may share the database, and its notices do not reach us
UNANSWERED: ConnectionFault = {
    "kind": "infrastructure",
    "condition": "no-worker",
    "message": "no worker has answered in time",
}


@router.answers(rest.NOTIFY)
async def notify(
    call: Called, branch: Branch, options: Wish | None = None
) -> JsonAnswer[NotifyAnswer]:
    """Send a test message to each channel of a dataflow and of the installation; without a target,
    of all dataflows. What no worker has answered in time has an error `no-worker`."""
    target = target_of(options.target if options else None)
    return await to_thread.run_sync(
        _notify, call, branch, target, limiter=call.services.threads.connections
    )


def _notify(call: Call, branch: str, target: str | None) -> JsonAnswer[NotifyAnswer]:
    trials = trial.ask(call.context, branch, target)
    errors = _answers(call, trials)
    trial.forget(call.context, branch, trials)
    items = [_entry(message_trial, errors) for message_trial in trials]
    return answer({"sent": not any(item["error"] for item in items), "items": items})


def _answers(call: Call, trials: list[Trial]) -> Mapping[bytes, TaskError | None]:
    wake, deadline = call.services.wake.of(call.context.namespace), time.monotonic() + ANSWER_S
    while not call.services.stopping.is_set():
        count = wake.count
        errors = trial.answers(call.context, trials)
        left = deadline - time.monotonic()
        if len(errors) == len(trials) or left <= 0:
            return errors
        wake.wait(min(left, LOOK_AGAIN_S), count)
    return {}


def _entry(message_trial: Trial, errors: Mapping[bytes, TaskError | None]) -> NotifyEntry:
    error = UNANSWERED if message_trial.key not in errors else _fault(errors[message_trial.key])
    return {
        "dataflow": message_trial.dataflow or None,
        "to": message_trial.channel.to,
        "place": message_trial.channel.place,
        "error": error,
    }


def _fault(error: TaskError | None) -> ConnectionFault | None:
    if error is None:
        return None
    return {"kind": error["kind"], "condition": error["condition"], "message": error["message"]}

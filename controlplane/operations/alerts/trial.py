"""Tests of channels: one message to each, and the caller waits for its answer."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.core import alerts
from controlplane.core.errors import NotFound
from controlplane.core.model.alerts import Channel
from controlplane.operations.alerts import channels, message_task
from controlplane.operations.context import Context
from controlplane.operations.planning.snapshot import desired
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import AlertMessage
from dataplane.contract.results import TaskError

TEXT = "this is a test: nothing is wrong"


@dataclass(frozen=True, slots=True)
class Trial:
    """A test message on its way."""

    dataflow: str  # empty: a channel of the installation
    channel: Channel
    key: bytes


def ask(ctx: Context, branch: str, dataflow: str | None) -> list[Trial]:
    """Queue a message to each channel of a dataflow and of the installation; without a name, of all
    dataflows."""
    request = uuid.uuid4().hex
    trials: list[Trial] = []
    with ctx.begin() as tx:
        nodes = desired(tx, branch, namespace=ctx.namespace)
        if dataflow is not None and dataflow not in nodes.texts:
            raise NotFound(f"there is no dataflow {dataflow} in branch {branch}")
        flows = [dataflow] if dataflow is not None else sorted(nodes.texts)
        channels_by_flow = [
            (flow, destination)
            for flow in flows
            for destination in nodes.texts[flow].blueprint.notify
        ]
        channels_by_flow += [(channels.INSTALLATION, destination) for destination in ctx.notify]
        for number, (flow, channel) in enumerate(channels_by_flow):
            key = digest("notify-test/1", request=request, number=number)
            message_task.ask(tx, branch, key, channel, _message(branch, flow, key, tx.now()))
            trials.append(Trial(flow, channel, key))
    ctx.wake()
    return trials


def _message(branch: str, flow: str, key: bytes, now: float) -> AlertMessage:
    at = alerts.instant(now)
    return {
        "id": key.hex()[:32],
        "branch": branch,
        "dataflow": flow,
        "at": at,
        "summary": f"{flow or 'all dataflows'}: test",
        "items": [{"dataset": flow or "*", "occasion": "test", "since": at, "text": TEXT}],
    }


def answers(ctx: Context, trials: list[Trial]) -> Mapping[bytes, TaskError | None]:
    """By key, of those that were answered."""
    with ctx.read() as tx:
        memos = tx.traces.memos([trial.key for trial in trials])
    return {key: message_task.answer_in(memo) for key, memo in memos.items()}


def forget(ctx: Context, branch: str, trials: list[Trial]) -> None:
    """Drop the demands and the answers, which have no reader left."""
    with ctx.begin() as tx:
        for trial in trials:
            message_task.forget(tx, branch, trial.dataflow, trial.key)

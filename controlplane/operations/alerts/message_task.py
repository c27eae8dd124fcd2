"""The task of a worker that sends one message, and its answer."""

from __future__ import annotations

from typing import cast

from controlplane.core.compile import ids
from controlplane.core.model.alerts import Channel
from controlplane.core.model.memos import Memo
from controlplane.core.model.tasks import Task
from controlplane.ports.store import Tx
from dataplane.contract.jobs import AlertMessage, NotifyJob
from dataplane.contract.results import ChannelAnswer, TaskError

PRIORITY = 1_000


def ask(tx: Tx, branch: str, key: bytes, channel: Channel, message: AlertMessage) -> None:
    """Queue the task. It is wanted until `forget`."""
    job = _job(channel, message)
    dataset = f"{message['dataflow'] or 'headgate'}.notify"
    task = Task(
        key,
        "notify",
        dataset,
        partition="",
        job=ids.job_id(job),
        spec={},
        size_bytes=0,
        priority=PRIORITY,
    )
    tx.queue.put_job(task.job, job)
    tx.queue.enqueue(branch, demand(message["dataflow"], key), [task])


def _job(channel: Channel, message: AlertMessage) -> NotifyJob:
    settings = {
        name: list(value) if isinstance(value, tuple) else value for name, value in channel.settings
    }
    return {"to": channel.to, "place": channel.place, "settings": settings, "message": message}


def forget(tx: Tx, branch: str, dataflow: str, key: bytes) -> None:
    """Drop the demand and the answer, which have no reader left."""
    tx.queue.drop_demands(branch, demand(dataflow, key))
    tx.traces.forget_memos([key])


def demand(dataflow: str, key: bytes) -> str:
    """The name under which a message's task is wanted."""
    return f"{dataflow or 'headgate'}#notify/{key.hex()[:16]}"


def answer_in(memo: Memo) -> TaskError | None:
    """Why the channel did not take it, if it did not."""
    return cast("ChannelAnswer", memo)["error"]

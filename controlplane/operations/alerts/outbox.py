"""News become messages, and messages are sent until they are acknowledged.

    due         -> a task of a worker
    answered    -> taken: the message is dropped; else it is due again, after a while that grows
    task failed -> the same, as the worker was lost several times

A message is dropped only in the transaction that has seen its acknowledgement: so it is sent at
least once.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from controlplane.core import alerts
from controlplane.core.alerts import Channels, News
from controlplane.core.model.alerts import Message
from controlplane.core.model.events import Event
from controlplane.operations.alerts import message_task
from controlplane.ports.store import Tx
from dataplane.contract.encoding import digest
from dataplane.contract.results import TaskError


def record(tx: Tx, branch: str, news: News) -> None:
    """Record the result of an alerting step, in one transaction with the messages about it."""
    tx.alerts.put(news.changed)
    tx.alerts.drop(news.forgotten)
    waiting = {(m.channel, m.dataflow): m for m in tx.alerts.messages(branch) if alerts.is_open(m)}
    changed: list[Message] = []
    for (channel, flow), items in news.items.items():
        message = waiting.get((channel, flow))
        if message is None:
            due = tx.now() + alerts.GATHER_S
            message = Message(uuid.uuid4().hex, branch, flow, channel=channel, items=(), due=due)
        changed.append(alerts.gathered(message, items))
    tx.alerts.put_messages(changed)


def step(tx: Tx, branch: str, channels_of: Mapping[str, Channels]) -> bool:
    """Send due messages and process the answers to earlier ones. True if anything changed."""
    messages = tx.alerts.messages(branch)
    keys = [message.task for message in messages if message.task is not None]
    answers, tasks = tx.traces.memos(keys), tx.queue.tasks(keys)
    changed = False
    for message in messages:
        if message.channel not in channels_of.get(message.dataflow, {}):
            _drop(tx, message)
        elif message.task is None:
            if message.due > tx.now():
                continue
            _send(tx, message, channels_of)
        elif message.task in answers:
            _answered(tx, message, message_task.answer_in(answers[message.task]))
        elif message.task not in tasks:
            _send(tx, message, channels_of)  # its demand was dropped
        elif tasks[message.task].state == "failed":
            _answered(tx, message, tasks[message.task].error)
        else:
            continue
        changed = True
    return changed


def is_under_way(message: Message, now: float) -> bool:
    """A run waits for it: it is sent for the first time, or is about to be."""
    return message.tries == 0 or (message.task is not None and message.due <= now)


def _send(tx: Tx, message: Message, channels_of: Mapping[str, Channels]) -> None:
    key = digest("notify/1", message=message.id, tries=message.tries)
    channel = channels_of[message.dataflow][message.channel]
    message_task.ask(tx, message.branch, key, channel, alerts.content(message, tx.now()))
    tx.alerts.put_messages([replace(message, task=key)])


def _answered(tx: Tx, message: Message, error: TaskError | None) -> None:
    assert message.task is not None
    message_task.forget(tx, message.branch, message.dataflow, message.task)
    if error is None:
        _put_event(tx, message, "notify.sent", {"items": len(message.items)})
        tx.alerts.drop_messages([message.id])
        return
    later = replace(alerts.again(message, tx.now()), error=error)
    _put_event(tx, message, "notify.failed", {"tries": later.tries, "message": error["message"]})
    tx.alerts.put_messages([later])


def _drop(tx: Tx, message: Message) -> None:
    """The channel no longer exists, or is another one."""
    if message.task is not None:
        message_task.forget(tx, message.branch, message.dataflow, message.task)
    tx.alerts.drop_messages([message.id])


def _put_event(tx: Tx, message: Message, kind: str, body: Mapping[str, object]) -> None:
    content = {"dataflow": message.dataflow, "id": message.id, **body}
    tx.events.put([Event(kind, "", 1, content, branch=message.branch)])

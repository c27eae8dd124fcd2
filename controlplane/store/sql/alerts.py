"""Alerts, and messages about them. Does not belong here: when alerts are sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row

from controlplane.core.model.alerts import Alert, Message
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part, dump, dump_optional, load_optional


class SqlAlerts(Part):
    def all(self, branch: str) -> tuple[Alert, ...]:
        of = db.alerts.c
        rows = self._rows(self._select(db.alerts, branch=branch).order_by(of.dataset, of.condition))
        return tuple(_alert(row) for row in rows)

    def put(self, alerts: Sequence[Alert]) -> None:
        self._upsert(db.alerts, map(_alert_row, alerts))

    def drop(self, alerts: Iterable[Alert]) -> None:
        for one in alerts:
            self._delete(db.alerts, branch=one.branch, dataset=one.dataset, condition=one.condition)

    def messages(self, branch: str) -> tuple[Message, ...]:
        rows = self._rows(self._select(db.messages, branch=branch).order_by(db.messages.c.id))
        return tuple(_message(row) for row in rows)

    def put_messages(self, messages: Sequence[Message]) -> None:
        self._upsert(db.messages, map(_message_row, messages))

    def drop_messages(self, ids: Iterable[str]) -> None:
        self._delete_among(db.messages, "id", ids)


def _alert(row: Row[Any]) -> Alert:
    return Alert(
        row.branch,
        row.dataset,
        row.condition,
        since=row.since,
        text=json.loads(row.text),
        told=tuple(json.loads(row.told)),
        ended=row.ended,
    )


def _alert_row(alert: Alert) -> dict[str, Any]:
    return {
        "branch": alert.branch,
        "dataset": alert.dataset,
        "condition": alert.condition,
        "since": alert.since,
        "text": dump(alert.text),
        "told": dump(alert.told),
        "ended": alert.ended,
    }


def _message(row: Row[Any]) -> Message:
    return Message(
        row.id,
        row.branch,
        row.dataflow,
        channel=row.channel,
        items=tuple(json.loads(row.items)),
        due=row.due,
        tries=row.tries,
        task=row.task,
        error=load_optional(row.error),
    )


def _message_row(message: Message) -> dict[str, Any]:
    return {
        "id": message.id,
        "branch": message.branch,
        "dataflow": message.dataflow,
        "channel": message.channel,
        "items": dump(message.items),
        "due": message.due,
        "tries": message.tries,
        "task": message.task,
        "error": dump_optional(message.error),
    }

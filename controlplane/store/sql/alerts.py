"""Alerts, and messages about them. Does not belong here: when alerts are sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Row

from controlplane.core.model.alerts import Alert, Message
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import TableGroup
from controlplane.store.sql.row_records import Record, dump

_ALERTS = Record(db.alerts, Alert, notified="told")
_MESSAGES = Record(db.messages, Message)


class SqlAlerts(TableGroup):
    def all(self, branch: str) -> tuple[Alert, ...]:
        of = db.alerts.c
        rows = self._rows(self._select(db.alerts, branch=branch).order_by(of.dataset, of.condition))
        return tuple(map(_alert, rows))

    def put(self, alerts: Sequence[Alert]) -> None:
        self._upsert(db.alerts, map(_alert_row, alerts))

    def drop(self, alerts: Iterable[Alert]) -> None:
        for alert in alerts:
            self._delete(
                db.alerts, branch=alert.branch, dataset=alert.dataset, condition=alert.condition
            )

    def messages(self, branch: str) -> tuple[Message, ...]:
        rows = self._rows(self._select(db.messages, branch=branch).order_by(db.messages.c.id))
        return tuple(_MESSAGES.from_rows(rows))

    def put_messages(self, messages: Sequence[Message]) -> None:
        self._put(_MESSAGES, messages)

    def drop_messages(self, ids: Iterable[str]) -> None:
        self._delete_among(db.messages, "id", ids)


def _alert(row: Row[Any]) -> Alert:
    return _ALERTS.from_row(row, text=json.loads(row.text))


def _alert_row(alert: Alert) -> dict[str, Any]:
    """The text is JSON too: it may have characters that a database's texts cannot hold."""
    return _ALERTS.to_row(alert) | {"text": dump(alert.text)}

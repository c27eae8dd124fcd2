"""Alerts and messages in memory: the twin of `sql.alerts`. Does not belong here: when alerts are sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controlplane.core.model.alerts import Alert, Message
from tests.property.memory_store.queue import MemoryPart


class MemoryAlerts(MemoryPart):
    def alerts(self, branch: str) -> tuple[Alert, ...]:
        found = (alert for alert in self._space.alerts.values() if alert.branch == branch)
        return tuple(sorted(found, key=lambda alert: alert.key))

    def put_alerts(self, alerts: Sequence[Alert]) -> None:
        for alert in alerts:
            self._space.alerts[(alert.branch, *alert.key)] = alert

    def drop_alerts(self, alerts: Iterable[Alert]) -> None:
        for alert in alerts:
            self._space.alerts.pop((alert.branch, *alert.key), None)

    def messages(self, branch: str) -> tuple[Message, ...]:
        found = (message for message in self._space.messages.values() if message.branch == branch)
        return tuple(sorted(found, key=lambda message: message.id))

    def put_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._space.messages[message.id] = message

    def drop_messages(self, ids: Iterable[str]) -> None:
        for id in ids:
            self._space.messages.pop(id, None)

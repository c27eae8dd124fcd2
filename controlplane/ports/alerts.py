"""The part of a transaction that is about alerts, and messages about them.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from controlplane.core.model.alerts import Alert, Message


class Alerts(Protocol):
    """Alerts of one namespace, and messages about them."""

    def all(self, branch: str) -> tuple[Alert, ...]:
        """Conditions that hold, or are over and not reported yet; in order of datasets."""

    def put(self, alerts: Sequence[Alert]) -> None:
        """Insert or replace, by branch, dataset and condition."""

    def drop(self, alerts: Iterable[Alert]) -> None: ...

    def messages(self, branch: str) -> tuple[Message, ...]:
        """Unacknowledged messages, in order of their ids."""

    def put_messages(self, messages: Sequence[Message]) -> None:
        """Insert or replace, by id."""

    def drop_messages(self, ids: Iterable[str]) -> None: ...

"""What a client that stays connected says of the server, as it is now."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from dataplane.connectors.kafka.kafka_server import KafkaServer
from dataplane.task_failures import TaskFailure


class Admin:
    """A client whose events come with the next poll, and its answers with the one after."""

    def __init__(self, on_error: Callable[[KafkaError], None]) -> None:
        self._on_error = on_error
        self.events = list[KafkaError]()
        self._futures = list[Future[Any]]()

    def describe_topics(self, topics: Any, **_options: Any) -> dict[str, Future[Any]]:
        self._futures.append(Future())
        return {"t": self._futures[-1]}

    def poll(self, _timeout_s: float) -> None:
        if self.events:
            self._on_error(self.events.pop())
        elif self._futures:
            unknown = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            self._futures.pop().set_exception(KafkaException(unknown))


def test_an_event_of_before_says_nothing_of_this_call() -> None:
    server = KafkaServer({"servers": "a:1"})
    admin = Admin(server._errors.append)
    server.__dict__["_admin"] = admin
    admin.events.append(KafkaError(KafkaError._AUTHENTICATION))
    with pytest.raises(TaskFailure) as failure:
        server.topic("t")
    assert failure.value.condition == "topic-not-found"

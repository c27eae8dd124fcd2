"""One Kafka for all tests of what is written to topics, and names that no other test uses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from tests.servers.kafka import Kafka

NUMBERS = count()


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    server = Kafka().start()
    yield server
    server.remove()


@pytest.fixture
def name() -> str:
    return f"t{next(NUMBERS)}"

"""The servers that tests of a process share, wherever they use them: each starts once.

A test takes names that no other test has. Does not belong here: servers that tests stop for good or
set up in their own way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.jdbc.databases import Servers
    from tests.servers.kafka import Kafka
    from tests.servers.s3 import S3

# Clients are imported by the tests that use them alone.


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    from tests.servers.kafka import Kafka

    server = Kafka().start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    from tests.servers.s3 import S3

    server = S3().start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Databases, of which each starts when a test first needs it."""
    from tests.jdbc.databases import Servers

    servers = Servers()
    yield servers
    servers.remove()

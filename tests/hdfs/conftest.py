"""One HDFS for all tests here, and a lake of its own for each of them. Does not belong here: what
is expected."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.servers.hdfs import Hdfs


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    server = Hdfs().start()
    yield server
    server.remove()


@pytest.fixture
def uri(hdfs: Hdfs) -> str:
    """The lake of one test."""
    return f"{hdfs.url}/lakes/{uuid4().hex}"

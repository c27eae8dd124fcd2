"""A lake of its own for each test, on the S3 server that all share.

Does not belong here: what is expected.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.servers.faulty import Faulty
from tests.servers.s3 import S3

OF_STORES = ("AWS_", "HEADGATE_")


@pytest.fixture
def uri(s3: S3, monkeypatch: pytest.MonkeyPatch) -> str:
    """The lake of one test; the environment leads to it."""
    point(monkeypatch, s3.environment())
    return f"s3://lake/{uuid4().hex}"


@pytest.fixture
def line(s3: S3, uri: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    """A line to the server, which the environment leads to."""
    found = Faulty(s3.port)
    point(monkeypatch, s3.environment(found.url))
    yield found
    found.close()


def point(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

"""One server of each cloud for all tests here, and a lake of its own for each of them.

Does not belong here: what is expected.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.servers.azure import Azure
from tests.servers.gcs import Gcs


@pytest.fixture(scope="session", params=[Azure, Gcs], ids=["azure", "gcs"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Azure | Gcs]:
    server = request.param().start()
    yield server
    server.remove()


@pytest.fixture
def uri(cloud: Azure | Gcs, monkeypatch: pytest.MonkeyPatch) -> str:
    """The lake of one test; the environment leads to it."""
    for name, value in cloud.environment().items():
        monkeypatch.setenv(name, value)
    return f"{cloud.lake}/{uuid4().hex}"

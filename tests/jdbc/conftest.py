"""One server of each database for all tests of the connector, and an empty database for each."""

from __future__ import annotations

import pytest

from tests.jdbc.databases import (
    DATABASES,
    AnyDatabase,
    MariaDatabase,
    PostgresDatabase,
    Servers,
)


@pytest.fixture(params=DATABASES, ids=lambda kind: kind.dialect.scheme)
def database(request: pytest.FixtureRequest, servers: Servers) -> AnyDatabase:
    kind: type[AnyDatabase] = request.param
    return servers.database(kind)


@pytest.fixture
def postgres(servers: Servers) -> PostgresDatabase:
    return servers.database(PostgresDatabase)


@pytest.fixture
def maria(servers: Servers) -> MariaDatabase:
    return servers.database(MariaDatabase)

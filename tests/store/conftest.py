"""Both databases behind one fixture. Every test works in a namespace of its own, so that stores can be shared."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from controlplane.ports.store import Store, Tx
from controlplane.store import open_store, upgrade
from tests.servers.postgres import Postgres, running

STORES = ("sqlite", "postgresql")


@dataclass(frozen=True)
class World:
    """A store, and the namespace of one test in it."""

    store: Store
    namespace: str

    def begin(self) -> AbstractContextManager[Tx]:
        return self.store.begin(self.namespace)

    def read(self) -> AbstractContextManager[Tx]:
        return self.store.read(self.namespace)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running() as server:
        yield server


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[dict[str, Store]]:
    path = tmp_path_factory.mktemp("store") / "metadata.db"
    urls = {"sqlite": f"sqlite:///{path}", "postgresql": postgres.url()}
    for url in urls.values():
        upgrade(url)
    opened = {kind: open_store(url) for kind, url in urls.items()}
    yield opened
    for store in opened.values():
        store.close()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, stores: dict[str, Store]) -> Store:
    return stores[request.param]


@pytest.fixture
def world(store: Store) -> World:
    return World(store, uuid.uuid4().hex)


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes the URL of a database without tables."""

    def make() -> str:
        name = f"t{uuid.uuid4().hex}"
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path / name}"
        server: Postgres = request.getfixturevalue("postgres")
        return server.create(name)

    return make

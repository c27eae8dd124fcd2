"""Both databases behind one fixture. Every test works in a namespace of its own, so that stores can
be shared.

The same statements run on both databases. What differs between them is asked of PostgreSQL in each
run: the contract, locks, kills, outages, migrations, and what a pass costs. The other files have
PostgreSQL at one commit in three.
"""

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
from tests.slices import in_turn

STORES = ("sqlite", "postgresql")
FOLDER = Path(__file__).parent
ON_BOTH = (  # in each run
    "branch_cost",
    "contract",
    "kills",
    "late_file",
    "leases",
    "listings",
    "migrations",
    "outage",
    "outage_loop",
    "planning_cost",
    "queue",
)
IN_TURN = [
    path.stem
    for path in sorted(FOLDER.glob("test_*.py"))
    if path.stem.removeprefix("test_") not in ON_BOTH
]
SHARE = 3  # of commits


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == FOLDER and item.path.stem in IN_TURN and _is_on_postgresql(item):
            for mark in in_turn(IN_TURN.index(item.path.stem), SHARE):
                item.add_marker(mark)


def _is_on_postgresql(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and "postgresql" in (
        call.params.get("store"),
        call.params.get("empty_database"),
    )


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


class Stores(dict[str, Store]):
    """By kind. A store is opened at its first use, so that tests of SQLite alone start no
    server."""

    def __init__(self, url_of: Callable[[str], str]) -> None:
        super().__init__()
        self._url_of = url_of

    def __missing__(self, kind: str) -> Store:
        url = self._url_of(kind)
        upgrade(url)
        self[kind] = open_store(url)
        return self[kind]


@pytest.fixture(scope="session")
def stores(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Stores]:
    def url_of(kind: str) -> str:
        if kind == "postgresql":
            server: Postgres = request.getfixturevalue("postgres")
            return server.url()
        return f"sqlite:///{tmp_path_factory.mktemp('store') / 'metadata.db'}"

    opened = Stores(url_of)
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

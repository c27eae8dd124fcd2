"""Stores for tests: SQLite in a file of their own, which is a copy of one that was migrated once in
this process."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Dialect, create_engine

from controlplane.ports.store import Store
from controlplane.store import open_store, upgrade
from controlplane.store.sql.store import SqlStore
from tests.property.memory_store.store import MEMORY, MemoryStore

_NUMBERS = count()


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="headgate-stores-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    upgrade(f"sqlite:///{folder}/empty.db")
    return folder


def new_store(clock: Callable[[], float] = time.time) -> Store:
    """An empty store. Its file goes with it."""
    path = _folder() / f"{next(_NUMBERS)}.db"
    shutil.copyfile(_folder() / "empty.db", path)
    store = open_store(f"sqlite:///{path}", clock)
    _share_statements(store)
    weakref.finalize(store, _remove, path)
    return store


def _share_statements(store: Store) -> None:
    """Statements are compiled once in this process, not once for each store."""
    assert isinstance(store, SqlStore)
    for engine in store._engines:
        engine.dialect, engine._compiled_cache = _compiling()


@cache
def _compiling() -> tuple[Dialect, Any]:
    """A dialect that has met its database, and what was compiled in it."""
    engine = create_engine("sqlite://")
    engine.connect().close()
    return engine.dialect, engine._compiled_cache


def store_at(url: str | None, clock: Callable[[], float] = time.time) -> Store:
    """The store at a URL, at the newest migration; a new one without a URL; the twin in memory at
    `memory:`."""
    if url is None:
        return new_store(clock)
    if url == MEMORY:
        return MemoryStore(clock)
    upgrade(url)
    return open_store(url, clock)


def damage_node(store: Store, digest: bytes) -> None:
    """Replace the body of a tree node."""
    with store.begin() as tx:
        tx.upkeep.drop_nodes([digest], tx.now() + 1.0)
        tx.nodes.put_nodes({digest: b"damaged"})


def _remove(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        path.with_name(name).unlink(missing_ok=True)

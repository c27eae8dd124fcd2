"""A real server on a loopback port over the in-memory store; tests talk to it as any client
does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.api.services import Services
from controlplane.drivers.local_pool import LocalPool
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from tests.stores import new_store
from tests.unit.api.world import TellingWake, World, render, serving


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    stopping = threading.Event()
    wake = TellingWake()
    faults: list[Exception] = []

    def unready() -> str:
        if faults:
            raise faults[0]
        return ""

    pool = LocalPool("http://127.0.0.1:1", tmp_path, str)  # nothing is started in it

    def log(driver: str, lines: int) -> str:
        unready()
        return pool.log(driver, lines)

    services = Services(
        new_store(), open_lake(str(tmp_path)), wake, render, log, stopping=stopping, unready=unready
    )
    context = Context(services.store)
    admin, _ = tokens.create(context, "test", ("admin",))
    driver, _ = tokens.create(context, "test driver", ("driver",), subject="d1")
    with serving(services) as url:
        yield World(url, services, admin, driver, wake, faults, tmp_path)
    pool.close()
    services.store.close()

"""A real server on a loopback port over a real database, and raw connections to it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from controlplane.api.services import Services
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.reconciler.wake import WakeCounter
from controlplane.services.queries.adapter.query_pool import QueryPool
from controlplane.services.queries.adapter.result_folder import ResultFolder
from controlplane.services.queries.queries import Queries
from controlplane.services.sessions.sessions import SparkSessions
from controlplane.store import open_store, upgrade
from dataplane.contract.schemas import Json
from tests.unit.api.world import render, serving
from tests.unit.sessions.servers import Servers

HANG_S = 120.0


@dataclass(frozen=True)
class Attacked:
    """`gate`: logs of attempts are told once it is set."""

    url: str
    services: Services
    admin: str
    driver: str
    gate: threading.Event = field(default_factory=threading.Event)

    def http(self, token: str | None = None) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {token or self.admin}"}
        return httpx2.Client(base_url=self.url, headers=headers, trust_env=False, timeout=HANG_S)

    def raw(self, method: str, path: str, body: Json = None) -> socket.socket:
        """A connection that a request was sent on."""
        parts = urlsplit(self.url)
        token = self.driver if path.startswith("/v1/driver/") else self.admin
        sent = b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}"]
        head.append(f"Content-Length: {len(sent)}")
        raw = socket.create_connection((parts.hostname or "", parts.port or 0), HANG_S)
        raw.sendall("\r\n".join([*head, "", ""]).encode() + sent)
        return raw


@contextmanager
def attacked(home: Path, gate: threading.Event | None = None) -> Iterator[Attacked]:
    """One control plane without pools and loop, on SQLite."""
    gate = gate or threading.Event()

    def log(driver: str, lines: int) -> str:
        assert gate.wait(HANG_S)
        return f"{driver} {lines}"

    url = f"sqlite:///{home}/metadata.db"
    upgrade(url)
    pool = QueryPool(str(home))
    queries = Queries(pool, ResultFolder(home / "queries"))
    services = Services(
        open_store(url),
        open_lake(str(home)),
        WakeCounter(),
        render,
        log,
        queries=queries,
        spark_sessions=SparkSessions(Servers()),
    )
    context = Context(services.store)
    admin, _ = tokens.create(context, "test", ("admin",))
    driver, _ = tokens.create(context, "test driver", ("driver",), subject="d1")
    with serving(services) as address:
        try:
            yield Attacked(address, services, admin, driver, gate)
        finally:
            gate.set()
            pool.close()
    services.store.close()

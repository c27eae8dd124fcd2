"""What tests of the API share: a running control plane seen from outside, and a blueprint."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from controlplane.api.edge import LazyServices
from controlplane.api.services import Services
from controlplane.api.serving import Listener, Serving
from controlplane.client import Headgate
from controlplane.ports.records import WantedRows
from controlplane.reconciler.wake import WakeCounter

BLUEPRINT = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: /data/orders/*.csv, format: csv, schema: "id INT, price INT"}
  dear:
    transform: {sql: SELECT * FROM orders WHERE price > 100}
"""


@dataclass(frozen=True)
class World:
    """One control plane without pools and loop. Asked whether it is ready, or for a log, it raises
    the first of `faults`."""

    url: str
    services: Services
    admin: str
    driver: str
    wake: TellingWake
    faults: list[Exception]
    home: Path

    def http(self, token: str | None = None) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {token or self.admin}"}
        return httpx2.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)

    def client(self) -> Headgate:
        return Headgate(self.url, self.admin)


class PromptListener(Listener):
    """Ends as soon as its connections are closed.

    uvicorn pauses for 0.1 s before it looks at them, which thousands of tests would wait for.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await asyncio.sleep(0)  # an idle connection closes in this turn of the loop
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)


class PromptServing(Serving):
    """The server of the product with a prompt end. Its own end: `e2e/test_stopping`."""

    def __init__(self, services: Services, bound: socket.socket) -> None:
        lazily = LazyServices(lambda: services)
        super().__init__(services, lazily, bound, services.stopping.set)
        self._listener = PromptListener(self._listener.config)


@contextmanager
def serving(services: Services) -> Iterator[str]:
    """The URL of a server of these."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        api = PromptServing(services, bound)
        api.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            services.stopping.set()
            services.wake.notify()
            api.stop()


class TellingWake(WakeCounter):
    """A wake that tells when somebody begins to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Semaphore(0)

    def wait(self, timeout_s: float, seen: int | None = None) -> None:
        self.waiting.release()
        super().wait(timeout_s, seen)


def render(selection: WantedRows) -> Iterator[bytes]:
    yield coded(
        selection, f"{selection.rendering.format} {selection.limit} {len(selection.files)}".encode()
    )


def coded(selection: WantedRows, body: bytes) -> bytes:
    """As the client says that it takes it."""
    return gzip.compress(body) if selection.rendering.coding == "gzip" else body

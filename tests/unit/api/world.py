"""What tests of the API share: a running control plane seen from outside, and a blueprint."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx2

from controlplane.api.services import Services
from controlplane.client import Headgate
from controlplane.reconciler.wake import Wake
from dataplane.contract import Schema

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
    """One control plane without pools and loop. Asked whether it is ready, or for a log, it raises the first of
    `faults`."""

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


class TellingWake(Wake):
    """A wake that tells when somebody begins to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Semaphore(0)

    def wait(self, timeout_s: float, seen: int | None = None) -> None:
        self.waiting.release()
        super().wait(timeout_s, seen)


def render(files: Sequence[str], schema: Schema, *, limit: int | None, format: str) -> Iterator[bytes]:
    yield f"{format} {limit} {len(files)}".encode()

"""A dataflow with a past, served over HTTP; SQLite has Spark's place. Does not belong here: what is
expected of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from controlplane.api.services import Services
from controlplane.client import Headgate
from controlplane.operations.desired import tokens
from controlplane.ports.records import WantedRows
from tests.unit.api.world import TellingWake, coded, serving
from tests.unit.branches.world import BranchWorld

DATASETS = "/v1/branches/main/datasets"
DOUBLED = "  doubled: {{transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}{more}}}\n"


def doubled(factor: int = 2, more: str = "") -> str:
    return DOUBLED.format(factor=factor, more=more)


@dataclass(frozen=True)
class Place:
    """`url` and `token` open the service of the world."""

    world: BranchWorld
    url: str
    token: str

    def client(self) -> Headgate:
        return Headgate(self.url, self.token)

    def http(self) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx2.Client(base_url=self.url, headers=headers, trust_env=False, timeout=30)

    def rows(self, name: str, **meant: Any) -> list[Any]:
        with self.client() as client, client.records(name, **meant) as parts:
            found: list[Any] = json.loads(b"".join(parts))
        return sorted(found)


@contextmanager
def served(home: Path) -> Iterator[Place]:
    """`orders` has one file in its generation 1, and two in its generation 2."""
    world = BranchWorld(home)
    world.put("a.csv", (1, 10))
    world.apply(doubled())
    world.settle()
    world.now += 10_000.0
    world.put("b.csv", (2, 20))
    world.settle()

    def render(selection: WantedRows) -> Iterator[bytes]:
        rows = [row for file in selection.files for row in world.engine.fragment(file).rows]
        if selection.rendering.format == "csv":
            yield coded(selection, ",".join(selection.columns).encode())
        else:
            yield coded(selection, json.dumps(rows[: selection.limit]).encode())

    wake, stopping = TellingWake(), threading.Event()
    services = Services(world.store, world.lake, wake, render, lambda *_: "", stopping=stopping)
    admin, _ = tokens.create(world.ctx, "test", ("admin",))
    with serving(services) as url:
        yield Place(world, url, admin)
    world.store.close()

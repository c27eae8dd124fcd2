"""A service over a store whose work SQLite does, and clients of the official SDK.

Does not belong here: what is expected of the tools.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from controlplane.api.services import Services
from controlplane.cli.mcp_server import build
from controlplane.client import Headgate
from controlplane.core.model.answers import EventRecord
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.desired import tokens
from tests.unit.api.world import TellingWake, render, serving
from tests.unit.expectations.world import HEAD, World
from tests.unit.ui.world import compute, publish

ROOT = Path(__file__).parents[3]
DEAR = "  dear:\n    transform: {{sql: SELECT * FROM orders WHERE v > {least}}}\n"


@dataclass
class Assisted:
    """A service with two files of orders, all computed in main."""

    world: World
    client: Headgate
    url: str
    token: str

    def edit(self, least: int) -> dict[str, Any]:
        """The argument `blueprints` for another threshold of `dear`."""
        text = HEAD.format(home=self.world.home) + DEAR.format(least=least)
        return {"name": "/shop.yaml", "text": text}

    def call(self, *calls: tuple[str, dict[str, Any]], max_tasks: int = 200) -> list[str]:
        """The answers of one server in this process, in order; errors begin with `Error`."""
        with WorkingClient(self) as client:
            return asyncio.run(answers(Client(build(client, max_tasks)), *calls))


class WorkingClient(Headgate):
    """Where events of a branch are waited for, loop and drivers do its work, which is an event."""

    def __init__(self, service: Assisted) -> None:
        super().__init__(service.url, service.token)
        self._world = service.world

    def events(
        self, after: int | None = None, *, branch: str = "main", follow: bool = True
    ) -> Iterator[EventRecord | None]:
        compute(self._world, branch)
        yield None


@contextmanager
def assisted(folder: Path, *roles: str) -> Iterator[Assisted]:
    world = World(folder)
    world.put("a.csv", (1, 10), (2, 200))
    world.put("b.csv", (3, 300))
    world.apply(DEAR.format(least=100))
    world.settle()
    publish(world)
    services = Services(world.store, open_lake(str(folder)), TellingWake(), render, lambda *_: "")
    token, _ = tokens.create(world.ctx, "assistant", roles or ("admin",))
    with serving(services) as url, Headgate(url, token) as client:
        yield Assisted(world, client, url, token)
    world.store.close()


async def answers(client: Client, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """The texts of answers."""
    async with client:
        results = [await client.call_tool(name, arguments) for name, arguments in calls]
    texts = []
    for result in results:
        (content,) = result.content
        assert content.type == "text"
        assert result.is_error == content.text.startswith("Error"), content.text
        texts.append(content.text)
    return texts


def answer(text: str) -> Any:
    return json.loads(text)["answer"]


def environment(url: str, token: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "HEADGATE_URL": url, "HEADGATE_TOKEN": token}


def stdio(folder: Path, url: str, token: str) -> Client:
    """A client that starts `headgate mcp`."""
    command = ["-m", "controlplane", "mcp"]
    return Client(
        StdioServerParameters(
            command=sys.executable, args=command, env=environment(url, token), cwd=folder
        )
    )


async def over_http(address: str, token: str, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http:
        return await answers(Client(streamable_http_client(address, http_client=http)), *calls)

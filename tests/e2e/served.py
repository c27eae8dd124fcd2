"""A dataflow in a running service that is told when to look at its sources: what all stories of
connectors do.

Does not belong here: the source itself, and what is expected of it.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import Any

from controlplane.client import Headgate
from tests.e2e.workspace import Service, Workspace, until


class Served:
    """`flow` has so many read components as `reads`; counts the work done so far."""

    def __init__(
        self, workspace: Workspace, service: Service, api: Headgate, flow: str, reads: int
    ) -> None:
        self.workspace, self.service, self.api, self.flow, self.reads = (
            workspace,
            service,
            api,
            flow,
            reads,
        )
        self.executed = 0

    def refresh(self, *, code: int = 0, accept_deletes: bool = False) -> None:
        """Look again, and wait until nothing is left to do. `code`: what `wait` is to end with."""
        wanted = self.workspace.listed() + self.reads
        self.api.refresh(self.flow, accept_deletes=accept_deletes)
        until(
            lambda: self.workspace.listed() >= wanted, lambda: "the read components were not listed"
        )
        self.workspace.call("wait", self.flow, "--home", self.workspace.home, code=code)

    def state(self, name: str) -> str:
        return str(self.api.dataset(f"{self.flow}.{name}")["state"])

    def work(self) -> int:
        """Tasks executed since this was asked last."""
        before, self.executed = self.executed, self.workspace.counted().get("task.executed", 0)
        return self.executed - before

    def rows(self, name: str) -> list[dict[str, Any]]:
        with self.api.records(f"{self.flow}.{name}") as parts:
            found: list[dict[str, Any]] = json.loads(b"".join(parts))
        return found


def second_of_now() -> str:
    """As in addresses. It is over when this returns: what comes next is committed later."""
    now = int(time.time())
    until(lambda: time.time() >= now + 1, lambda: "the clock stands")
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")

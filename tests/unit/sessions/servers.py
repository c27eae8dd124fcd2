"""Spark Connect servers that are none: what opens and ends them is seen without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.services.sessions.port import SessionNote, SessionServer
from dataplane.contract.query_protocol import SparkTable


@dataclass
class Servers:
    """Open until somebody ends them. `tables`: of each, in turn."""

    tables: list[list[SparkTable]] = field(default_factory=list)
    live: dict[str, SessionNote] = field(default_factory=dict)

    def open(self, note: SessionNote, tables: Sequence[SparkTable], ttl_s: float) -> SessionServer:
        self.tables.append(list(tables))
        self.live[note.entry["id"]] = note
        return SessionServer("localhost", 15002, "secret-of-it", "headgate", "s")

    def notes(self) -> list[SessionNote]:
        return list(self.live.values())

    def is_alive(self, id: str) -> bool:
        return id in self.live

    def end(self, id: str) -> None:
        self.live.pop(id, None)

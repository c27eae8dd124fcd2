"""The protocol of a process that is one user's Spark Connect server: an order in a line, and its
result."""

from __future__ import annotations

from typing import TypedDict

from dataplane.contract.query_protocol import SparkTable


class ServerOrder(TypedDict):
    """The first and only line. `user` and `session`: of the client that is let in, by `token`;
    `tables`: of the views that it finds. The process ends after `ttl_s`, after `idle_s` without a
    call of its client, or with its standard input."""

    lake: str
    scratch: str
    memory_bytes: int
    disk_bytes: int
    ttl_s: float
    idle_s: float
    token: str
    user: str
    session: str
    tables: list[SparkTable]


class PodOrder(TypedDict):
    """The part of the order that a pod gets: the rest is in its environment."""

    ttl_s: float
    token: str
    user: str
    session: str
    tables: list[SparkTable]


class ServerAnswer(TypedDict):
    """`port`: of this machine, on which it serves; None where it does not, and the process ends.
    `error`: why."""

    port: int | None
    error: str

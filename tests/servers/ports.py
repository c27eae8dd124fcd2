"""Loopback ports that nobody listens on. Does not belong here: servers."""

from __future__ import annotations

import socket
from contextlib import ExitStack


def free_ports(number: int) -> list[int]:
    """All different."""
    with ExitStack() as opened:
        sockets = [
            opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)
        ]
        return [int(s.getsockname()[1]) for s in sockets]


def free_port() -> int:
    [port] = free_ports(1)
    return port

"""Who calls a pod: the first line of a connection."""

from __future__ import annotations

import socket
import time

from dataplane.contract.query_pods import HELLO_MOST, greeted


def nonce_of(connection: socket.socket, token: str, greet_s: float) -> bytes:
    """The nonce of a caller whose first line proves that it has the token, and who sends nothing
    behind it; empty for others. However slowly the line comes, its time is bounded. Raises
    OSError."""
    deadline, line = time.monotonic() + greet_s, b""
    while b"\n" not in line and len(line) <= HELLO_MOST:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return b""
        connection.settimeout(left_s)
        piece = connection.recv(HELLO_MOST)
        if not piece:
            return b""
        line += piece
    connection.settimeout(None)
    return greeted(token, line) if line.endswith(b"\n") else b""

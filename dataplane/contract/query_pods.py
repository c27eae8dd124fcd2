"""How a pod that answers queries is spoken to, over TCP: what a local process is by its pipes, in frames.

The caller's first line is the token, and it waits for the welcome. Then frames go both ways: a letter, the length of
what follows in four bytes, and what follows. `I` has bytes for the process's input, `O` some of its output. `W`, `K`
and `X` have a number in decimal digits. A connection that ends without `K` ends the process at once. Does not belong
here: what the process is asked, and answers (`queries`).
"""

from __future__ import annotations

import socket
import sys

from dataplane.contract.queries import HEAD

WELCOME = b"W"  # from the pod, once it is the caller's turn: how many questions the process was asked before
INPUT = b"I"
OUTPUT = b"O"
KEEP = b"K"  # the caller's last one: it has all that it wants, and the process was asked so many questions
EXIT = b"X"  # the pod's last one: the process ended with this status, negative for a signal
TOKEN_MOST = 200  # bytes of the first line
PIECE_MOST = 1 << 20  # bytes of a frame
SILENT_S, AGAIN_S, TIMES = 15, 5, 3  # a peer that is silent is looked after, and given up soon


def frame(kind: bytes, body: bytes) -> bytes:
    return HEAD.pack(kind, len(body)) + body


def number(kind: bytes, value: int) -> bytes:
    return frame(kind, str(value).encode())


def tend(connection: socket.socket) -> None:
    """Small frames go at once, and a peer that has vanished ends the connection within half a minute. One that is there
    may take as long as it likes to read."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, SILENT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, AGAIN_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, TIMES)

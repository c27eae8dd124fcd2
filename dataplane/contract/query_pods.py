"""How a pod that answers queries is spoken to, over TCP: what a local process is by its pipes, in
frames.

The caller's first line proves that it has the token, and the welcome that the pod has it: an
address may have become another's. The token itself is never sent. Then frames go both ways: a
letter, the length of what follows in four bytes, and what follows. `I` has bytes for the process's
input, `O` some of its output. `K` and `X` have a number in decimal digits, `W` one and the proof. A
connection that ends without `K` ends the process at once, and so does a caller that is silent for
too long: it says an empty `I` now and then.
"""

from __future__ import annotations

import hmac
import socket
import sys
from hashlib import sha256

from dataplane.contract.query_protocol import HEAD

# From the pod, once it is the caller's turn: how many questions the process was asked before
WELCOME = b"W"
INPUT = b"I"
OUTPUT = b"O"
# The caller's last one: it has all that it wants, and the process was asked so many questions
KEEP = b"K"
EXIT = b"X"  # the pod's last one: the process ended with this status, negative for a signal
HELLO_MOST = 200  # bytes of the first line
CALLER, POD = b"caller", b"pod"
PIECE_MOST = 1 << 20  # bytes of a frame
# A caller says something that often; the pod gives up one that does not
BEAT_S, SILENT_S = 5.0, 30.0
# A peer is looked after by the kernel where nothing is sent, and given up soon
IDLE_S, AGAIN_S, TIMES = 15, 5, 3


def proof(token: str, of: bytes, nonce: bytes) -> bytes:
    """That one of the two has the token, for this connection: `nonce` is a word that its caller
    made up."""
    return hmac.new(token.encode(), of + b"\n" + nonce, sha256).hexdigest().encode()


def hello(token: str, nonce: bytes) -> bytes:
    """The first line."""
    return nonce + b" " + proof(token, CALLER, nonce) + b"\n"


def greeted(token: str, line: bytes) -> bytes:
    """The nonce of a first line; empty where it proves nothing."""
    nonce, _, proven = line.removesuffix(b"\n").partition(b" ")
    return nonce if hmac.compare_digest(proven, proof(token, CALLER, nonce)) else b""


def frame(kind: bytes, body: bytes) -> bytes:
    return HEAD.pack(kind, len(body)) + body


def number(kind: bytes, value: int) -> bytes:
    return frame(kind, str(value).encode())


def welcome(token: str, nonce: bytes, questions: int) -> bytes:
    return frame(WELCOME, str(questions).encode() + b" " + proof(token, POD, nonce))


def welcomed(token: str, nonce: bytes, body: bytes) -> int | None:
    """The number of earlier questions to the process; None: the sender does not have the token."""
    questions, _, proven = body.partition(b" ")
    return int(questions) if hmac.compare_digest(proven, proof(token, POD, nonce)) else None


def tend(connection: socket.socket) -> None:
    """Small frames go at once, and a peer that has vanished ends a connection on which nothing is
    sent within half a minute. One that is there may take as long as it likes to read."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, AGAIN_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, TIMES)

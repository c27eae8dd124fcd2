"""Clients of the S3 view that mean harm, or are many: the process lives, serves others, and gives
all back.

The service is a process of its own, whose descriptors and memory are counted. Does not belong here:
single requests that are refused (`test_s3_requests`).
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import obstore
import pytest

from tests.e2e.workspace import until
from tests.servers.s3_view import LARGE, MANY, Running, running
from tests.slices import in_turn

# Many requests, in several ways: what one request may do is asked at each commit by
# test_s3_requests.
pytestmark = [pytest.mark.slow, *in_turn(3, 6)]

KEYS, MEGABYTES = 10_000, 16
SLOW = 200
ABORTED = 60  # at a time
READERS = 4  # keys that they take, none of which may have more than 64 requests under way
HELD_BYTES = 3 << 18  # of a body that nobody takes: pieces that are read, and what is being sent
HANG_S = 120.0
RESET = struct.pack("ii", 1, 0)  # close at once, whatever is under way


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("view"), KEYS, MEGABYTES) as found:
        for _ in range(2):  # what is made once and kept
            _listed(found)
            _whole(found)
        yield found


def _listed(view: Running, key: int = 0) -> int:
    return sum(map(len, obstore.list(view.store(key), prefix=MANY, chunk_size=1000)))


def _large(view: Running, key: int = 0) -> str:
    [[found]] = obstore.list(view.store(key), prefix=LARGE)
    return str(found["path"])


def _whole(view: Running, key: int = 0) -> bytes:
    return bytes(obstore.get(view.store(key), _large(view, key)).bytes())


def _asked(view: Running, name: str, key: int) -> socket.socket:
    """A connection that asked for the object, and has taken the first bytes of the answer."""
    url = urlsplit(obstore.sign(view.store(key), "GET", name, timedelta(seconds=600)))
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the system takes no more for it
    raw.settimeout(HANG_S)
    raw.connect((url.hostname or "", url.port or 0))
    raw.sendall(f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n".encode())
    assert raw.recv(12) == b"HTTP/1.1 200"
    return raw


def _at_rest(view: Running, descriptors: int) -> None:
    """All is given back: a handful of the database's and of clients' connections come and go."""
    until(
        lambda: view.descriptors() <= descriptors + 10,
        lambda: f"{view.descriptors()} descriptors are open, {descriptors} were",
    )


def test_slow_readers_hold_up_nobody_and_hold_little(view: Running) -> None:
    """Each takes a few bytes, and stays."""
    name, expected = _large(view), (view.file).read_bytes()
    descriptors, memory = view.descriptors(), view.memory()
    with ExitStack() as stack:
        for number in range(SLOW):
            stack.enter_context(_asked(view, name, 1 + number % READERS))
        assert view.descriptors() >= descriptors + SLOW
        assert _whole(view) == expected
        assert _listed(view) == KEYS
        assert view.memory() < memory + SLOW * HELD_BYTES
    _at_rest(view, descriptors)
    assert _whole(view, 1) == expected  # their keys have room again


def test_aborted_downloads_leave_nothing(view: Running) -> None:
    name = _large(view)
    descriptors, seen = view.descriptors(), list[int]()
    for _ in range(3):
        for number in range(ABORTED):
            raw = _asked(view, name, 1 + number % READERS)
            raw.recv(1 + number * 1000)
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            raw.close()
        _at_rest(view, descriptors)
        seen.append(view.memory())
    assert seen[-1] < 1.2 * seen[0]
    assert len(_whole(view, 1)) == MEGABYTES * 1_000_000


def test_requests_that_are_never_finished_keep_nobody_out(view: Running) -> None:
    """Half of a head, and then nothing; and heads that never end."""
    url = urlsplit(view.url)
    descriptors = view.descriptors()
    with ExitStack() as stack:
        for _ in range(SLOW):
            raw = stack.enter_context(
                socket.create_connection((url.hostname or "", url.port or 0), HANG_S)
            )
            raw.sendall(b"GET /default/main/ HTTP/1.1\r\nAuthorization: AWS4-HMAC-SHA256 Cred")
        endless = stack.enter_context(
            socket.create_connection((url.hostname or "", url.port or 0), HANG_S)
        )
        with suppress(OSError):  # it is cut off
            for number in range(10_000):
                endless.sendall(
                    f"{'GET / HTTP/1.1' if not number else f'x{number}: {number:0100}'}\r\n".encode()
                )
        assert _listed(view) == KEYS
    _at_rest(view, descriptors)


def test_listings_of_large_prefixes_again_and_again_take_no_more_memory(view: Running) -> None:
    """By several at a time; with prefixes that meet all keys, one in ten, and none, and a delimiter
    between."""
    seen = []
    for _ in range(4):
        threads = [threading.Thread(target=_listings, args=(view, key)) for key in range(READERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seen.append(view.memory())
    assert seen[-1] < 1.1 * seen[0]
    assert view.process.poll() is None


def _listings(view: Running, key: int) -> None:
    assert _listed(view, key) == KEYS
    for prefix in (f"{MANY}day@00{key}", f"{MANY}{'x' * 10_000}", "x" * 30_000):
        found = obstore.list_with_delimiter(view.store(key), prefix=prefix)
        assert found["objects"] == []


def test_the_log_of_it_has_no_fault(view: Running) -> None:
    lines = Path(view.file.parents[6] / "serve.log").read_text().splitlines()
    assert len(lines) > SLOW
    assert [line for line in lines if "Traceback" in line or '"level": "error"' in line] == []
    assert os.path.getsize(view.file) == MEGABYTES * 1_000_000

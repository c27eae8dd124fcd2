"""How long a driver's heartbeat and /livez take while many streams of events are open:
`event_streams.py 300 5000`.

The server is a process of its own. Events come five times a second, and each goes to all streams.
Does not belong here: streams of data (`streams.py`).
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import threading
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from controlplane.core.model.events import Event
from tests.hostile.attacked import attacked

SECONDS = 20.0
EVENTS_S = 0.2
PACE_S = 0.02
PATIENCE_S = 60.0


def serve(home: str, told: Connection) -> None:
    with attacked(Path(home)) as world:
        told.send((world.url, world.admin, world.driver))
        while not told.poll(EVENTS_S):
            with world.services.store.begin() as tx:
                tx.events.put([Event("tick", "a.b", 1, branch="main")])
            world.services.wake.notify()


async def read(url: str, token: str, count: int, ends: asyncio.Event) -> None:
    """Open streams, a hundred at a time, and read them until the end."""
    parts, writers, seen = urlsplit(url), [], 0

    async def follow(reader: asyncio.StreamReader) -> None:
        nonlocal seen
        while part := await reader.read(65536):
            seen += part.count(b"event: tick\n")

    following = []
    for n in range(count):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        head = f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        writer.write(head.encode())
        writers.append(writer)
        following.append(asyncio.create_task(follow(reader)))
        if n % 100 == 99:
            await asyncio.sleep(0.05)
    await asyncio.sleep(3.0)
    before = seen
    await ends.wait()
    print(
        json.dumps(
            {"streams": count, "events_per_stream": round((seen - before) / max(count, 1), 1)}
        ),
        flush=True,
    )
    for task in following:
        task.cancel()
    for writer in writers:
        writer.close()


def asked(
    url: str, driver: str, heartbeats: list[float], probes: list[float], stop: threading.Event
) -> None:
    headers = {"Authorization": f"Bearer {driver}"}
    with httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE_S) as http:
        while not stop.wait(PACE_S):
            began = time.monotonic()
            http.post("/v1/driver/heartbeat", json={"attempts": []}).raise_for_status()
            between = time.monotonic()
            http.get("/livez").raise_for_status()
            heartbeats.append(between - began)
            probes.append(time.monotonic() - between)


def shares(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    at = {"median_ms": 0.5, "p99_ms": 0.99, "worst_ms": 1.0}
    return {
        name: round(1000 * ordered[int(share * (len(ordered) - 1))], 1)
        for name, share in at.items()
    }


async def measure(count: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        ours, theirs = get_context("spawn").Pipe()
        server = get_context("spawn").Process(target=serve, args=(home, theirs))
        server.start()
        url, admin, driver = await asyncio.to_thread(ours.recv)
        ends, stop = asyncio.Event(), threading.Event()
        reading = asyncio.create_task(read(url, admin, count, ends))
        await asyncio.sleep(10.0 + count / 250)
        heartbeats: list[float] = []
        probes: list[float] = []
        asking = asyncio.create_task(
            asyncio.to_thread(asked, url, driver, heartbeats, probes, stop)
        )
        await asyncio.sleep(SECONDS)
        stop.set()
        try:
            await asking
        except httpx2.HTTPError as error:
            print(json.dumps({"streams": count, "failed": repr(error)}), flush=True)
        ends.set()
        await reading
        if heartbeats:
            told = {
                "heartbeat": shares(heartbeats),
                "livez": shares(probes or [PATIENCE_S]),
                "asked": len(heartbeats),
            }
            print(json.dumps({"streams": count, **told}), flush=True)
        ours.send("end")
        await asyncio.to_thread(server.join, 30)
        server.kill()


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for argument in sys.argv[1:] or ["300", "5000"]:
        asyncio.run(measure(int(argument)))

"""The same scenarios through a running service: POST and GET, timed where the client is.

What happens to sources happens in the database, as another replica's report would. Does not belong
here: the service itself (serving).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from benchmarks.planning import ours, sources
from benchmarks.planning.graph import Shape, layer_of, twin
from benchmarks.planning.world import Found, Void
from benchmarks.processes import environment
from controlplane.client import Headgate

Json: TypeAlias = Any
ROOT = Path(__file__).resolve().parents[2]
POLL_S = 0.05
NAMES = ("S1", "S2", "S3", "S10")


@dataclass(frozen=True, slots=True)
class Service:
    process: subprocess.Popen[str]
    client: Headgate

    def counts(self) -> Mapping[str, float]:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        found: Mapping[str, float] = _line(self.process)
        return found

    def timed(self, ask: Callable[[], Json]) -> Found:
        """Until the whole plan is here."""
        before = self.counts()
        began = time.perf_counter()
        plan = ask()
        seconds = time.perf_counter() - began
        after = self.counts()
        layers = {layer_of(item["dataset"]) for item in plan["items"]}
        return Found(
            items=_items(plan),
            seconds=seconds,
            statements=int(after["statements"] - before["statements"]),
            nodes_read=int(after["nodes_read"] - before["nodes_read"]),
            peak_mb=after["peak_mb"],
            layers=len(layers),
        )


def run(name: str, url: str, shape: Shape, expected: int, number: int) -> Found:
    """One scenario through a service of its own. Raises Void if other work came out."""
    with _serving(url) as service:
        found = _run(service, name, url, shape, number)
    if found.items != expected:
        raise Void(
            f"{name} through the service: {found.items} items of work where there are {expected}"
        )
    return found


def _run(service: Service, name: str, url: str, shape: Shape, number: int) -> Found:
    client = service.client
    if name == "S1":
        return service.timed(client.plan)
    if _items(client.plan()):
        raise Void(f"{name} through the service: there is work before anything has happened")
    match name:
        case "S3":
            _arrive(url, shape, number)
        case "S10":
            document = {"name": "/twin.yaml", "text": twin(shape, "twin")}
            return service.timed(lambda: client.apply([document])["plan"])  # type: ignore[list-item]
    return service.timed(client.plan)


def _arrive(url: str, shape: Shape, number: int) -> None:
    store = ours.open_counted(url)
    place = (shape.partitions // 2 + number) % shape.partitions
    sources.arrive(store, ours.desired(store), {shape.root: [place]}, f"late {number}")
    store.close()


def _items(plan: Json) -> int:
    return int(plan["certain"] + plan["possible"])


@contextmanager
def _serving(url: str) -> Iterator[Service]:
    settings = {"HEADGATE_POOL": "none", "HEADGATE_DATABASE_URL": url}
    with TemporaryDirectory(prefix="headgate-planner-") as home:
        command = [sys.executable, "-m", "benchmarks.planning.serving", home]
        log = Path(home) / "service.log"
        with (
            log.open("w") as errors,
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment() | settings,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            try:
                said = _line(process, log)
                with Headgate(said["url"], said["token"]) as client:
                    while not client.is_ready():
                        time.sleep(POLL_S)
                    yield Service(process, client)
            finally:
                process.kill()


def _line(process: subprocess.Popen[str], log: Path | None = None) -> Json:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the service has ended: {log.read_text()[-2000:] if log else ''}")
    return json.loads(line)

"""How many small folders one service lists in a second, and what a listing costs in processors'
time.

    python benchmarks/listings.py [--flows 400] [--seconds 30] [--keep before|after]

As many dataflows as asked for, each with one folder of one file, on SQLite, with one control plane
in a process of its own and the worker that it starts. No Spark: the pool has no drivers, so
listings are all that is done. Told apart are the first listing of every location, and those that
find nothing new. `--keep` writes benchmarks/results/listings.json. Does not belong here: what lies
in one large folder (connectors).
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import cpu_of, environment
from controlplane.bootstrap import Server
from controlplane.client import Document, Headgate
from controlplane.drivers.local_pool import LocalPool
from controlplane.parts.driver_pools import DriverPools
from controlplane.ports.pool import NamespacedPool
from controlplane.settings import read

RESULTS = Path(__file__).parent / "results" / "listings.json"
LOOK_AGAIN_S = 0.05
REST_S = 3.0  # after which a worker may remember a file
LONGEST_S = 300.0
AT_A_TIME = 50


class Workers(DriverPools):
    """Pools that have workers only."""

    def make(self, nudge: Callable[[], None] | None) -> NamespacedPool:
        pool = super().make(nudge)
        assert isinstance(pool, LocalPool)
        pool.shares = tuple(share for share in pool.shares if share.kind == "worker")
        return pool


class WithoutSpark(Server):
    @cached_property
    def pools(self) -> DriverPools:
        return Workers(self)


@dataclass(frozen=True, slots=True)
class Rate:
    """Listings that were taken in, and what that took."""

    listings: int
    wall_s: float
    cpu_s: float

    def json(self) -> dict[str, float]:
        return {
            "listings": self.listings,
            "per_second": round(self.listings / self.wall_s, 1),
            "cpu_ms_each": round(1000 * self.cpu_s / max(1, self.listings), 2),
        }


def main() -> None:
    asked = _arguments()
    if asked.serve:
        _serve(asked.serve)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = _measured(Path(folder), asked.flows, asked.seconds)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    if asked.keep:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        kept[asked.keep] = found
        RESULTS.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")


def _serve(home: Path) -> None:
    with WithoutSpark(read(home), "serve") as server:
        server.stopping.wait()


def _measured(folder: Path, flows: int, seconds: float) -> dict[str, object]:
    documents = [_document(folder, number) for number in range(flows)]
    time.sleep(REST_S)
    home = folder / "home"
    with _serving(home) as process:
        client = _client(home)
        _until(lambda: _workers(client) > 0)
        began = _now(home, process)
        for start in range(0, flows, AT_A_TIME):
            client.apply(documents[start : start + AT_A_TIME])
        _until(lambda: _listed(home) >= flows)
        first = _since(began, home, process)
        began = _now(home, process)
        time.sleep(seconds)
        again = _since(began, home, process)
        client.close()
    return {"dataflows": flows, "first": first.json(), "again": again.json()}


def _document(folder: Path, number: int) -> Document:
    place = folder / "data" / str(number)
    place.mkdir(parents=True)
    (place / "a.csv").write_text("x\n1\n")
    text = f"""
dataflow: flow{number}
components:
  rows:
    read:
      connector: files
      path: {place}/*.csv
      format: csv
      options: {{header: true}}
      schema: x INT
      refresh: 1s
"""
    return Document(name=str(folder / f"flow{number}.yaml"), text=text)


@contextmanager
def _serving(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    home.mkdir()
    with (home / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(home)],
            stdout=log,
            stderr=log,
            env=environment(),
        )
    try:
        yield process
    finally:
        process.kill()  # its children end with it
        process.wait()


def _client(home: Path) -> Headgate:
    announced = home / "server.json"
    _until(lambda: announced.exists() and bool(json.loads(announced.read_bytes())["url"]))
    url = json.loads(announced.read_bytes())["url"]
    client = Headgate(url, (home / "token").read_text().strip(), timeout_s=LONGEST_S)
    _until(client.is_ready)
    return client


def _workers(client: Headgate) -> int:
    return sum(
        d["kind"] == "worker" and d["state"] == "running" for d in client.status()["drivers"]
    )


def _listed(home: Path) -> int:
    with sqlite3.connect(f"file:{home / 'metadata.db'}?mode=ro", uri=True) as connection:
        [count] = connection.execute("SELECT coalesce(sum(served), 0) FROM listings").fetchone()
    connection.close()
    return int(count)


def _now(home: Path, process: subprocess.Popen[bytes]) -> tuple[int, float, float]:
    return _listed(home), time.monotonic(), cpu_of(process.pid)


def _since(began: tuple[int, float, float], home: Path, process: subprocess.Popen[bytes]) -> Rate:
    listed, at, cpu_s = _now(home, process)
    return Rate(listed - began[0], at - began[1], cpu_s - began[2])


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LONGEST_S
    while not is_so():
        if time.monotonic() > end:
            sys.exit("nothing came of it in five minutes")
        time.sleep(LOOK_AGAIN_S)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Listings of small folders in a second.")
    parser.add_argument("--flows", type=int, default=400)
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="for which unchanged folders are listed"
    )
    parser.add_argument("--keep", choices=("before", "after"))
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    os.environ.pop("HEADGATE_HOME", None)
    main()

"""What the S3 view costs: a listing of 100,000 keys, HEAD, and GET of a large file beside the disk's own speed.

    python benchmarks/s3_view.py [--keys 100000] [--megabytes 512] [--rounds 5] [--keep]

The service is a process of its own over SQLite and a local folder; the client is obstore, whose work is not counted.
Files of the listing are rows alone, with statistics of 18 columns as those of flights have. GET and reading the file
take turns. `--keep` writes benchmarks/results/s3_view.json. Does not belong here: what clients make of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import obstore
from obstore.store import S3Store

from benchmarks import pages
from benchmarks.processes import cpu_of, environment
from controlplane import logs
from controlplane.api.services import Services
from controlplane.core import tree
from controlplane.core.model.tasks import Fragment
from controlplane.lake.objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import s3_keys
from controlplane.reconciler.wake import Wake
from controlplane.store import open_store, upgrade
from dataplane.contract.identity import Content
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import field_of, struct_of
from tests.store.examples import state, trace
from tests.unit.api.world import render, serving

RESULTS = Path(__file__).parent / "results" / "s3_view.json"
MANY, LARGE = "main/flights/many/", "main/flights/large/"
HEADS = 1000
BATCH = 5000
PIECE = 1 << 20
COLUMNS = [f"column_{number}" for number in range(18)]
SCHEMA = struct_of(field_of(name, "long") for name in COLUMNS)
TARGETS = {"list_cpu_s": 3.0, "head_cpu_ms": 1.5, "get_share": 0.6}


@dataclass(frozen=True)
class Place:
    """A service, and a client with a key for all of it."""

    pid: int
    store: S3Store
    file: Path

    def cost(self, work: Callable[[], object]) -> tuple[float, float]:
        """Seconds of the clock, and of the service's processors."""
        before, began = cpu_of(self.pid), time.perf_counter()
        work()
        return time.perf_counter() - began, cpu_of(self.pid) - before


def main() -> None:
    asked = _arguments()
    if asked.serve:
        _serve(asked.serve, asked.keys, asked.megabytes)
        return
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder, _serving(Path(folder), asked) as place:
        found = {
            "keys": asked.keys,
            "megabytes": asked.megabytes,
            **_listed(place, asked.keys, asked.rounds),
            **_headed(place, asked.rounds),
            **_got(place, asked.rounds),
        }
    lines = _table(found)
    sys.stdout.write("\n".join(lines) + "\n")
    if asked.keep:
        result = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **pages.machine(), **found}
        told = "Measured on {at}, commit {commit}, Python {python}, {cores} cores with a load of {load[0]}."
        pages.keep(RESULTS, result, "s3-view", [*lines, "", told.format(**{**result, "at": result["at"][:10]})])


# --- what is measured ---


def _listed(place: Place, keys: int, rounds: int) -> dict[str, float]:
    """The first listing reads the tree, and later ones find it in memory."""

    def work() -> None:
        listed = sum(map(len, obstore.list(place.store, prefix=MANY, chunk_size=1000)))
        assert listed == keys, listed

    costs = [place.cost(work) for _ in range(rounds)]
    again = costs[1:] or costs
    first_page = [place.cost(lambda: obstore.list_with_delimiter(place.store, prefix="main/flights/"))[0]]
    return {
        "list_first_cpu_s": round(costs[0][1], 2),
        "list_cpu_s": round(median(cpu for _, cpu in again), 2),
        "list_wall_s": round(median(wall for wall, _ in again), 2),
        "folders_wall_ms": round(1000 * first_page[0], 1),
    }


def _headed(place: Place, rounds: int) -> dict[str, float]:
    first = next(iter(obstore.list(place.store, prefix=MANY, chunk_size=HEADS)))
    names = [found["path"] for found in first]

    def work() -> None:
        for name in names:
            obstore.head(place.store, name)

    costs = [place.cost(work) for _ in range(rounds)]
    return {
        "head_cpu_ms": round(1000 * median(cpu for _, cpu in costs) / len(names), 2),
        "head_wall_ms": round(1000 * median(wall for wall, _ in costs) / len(names), 2),
    }


def _got(place: Place, rounds: int) -> dict[str, float]:
    """By turns: the file as it is read from the disk, and by GET; both out of the disk, then both out of memory."""
    [[found]] = obstore.list(place.store, prefix=LARGE)

    def get() -> None:
        pieces = obstore.get(place.store, found["path"]).stream(min_chunk_size=PIECE)
        assert sum(map(len, pieces)) == found["size"]

    results = dict[str, float]()
    for name, prepare in (("cold", _forget), ("warm", _read)):
        disk, view = list[float](), list[tuple[float, float]]()
        for _ in range(rounds):
            prepare(place.file)
            began = time.perf_counter()
            _read(place.file)
            disk.append(time.perf_counter() - began)
            prepare(place.file)
            view.append(place.cost(get))
        size = found["size"] / 1e6
        results[f"disk_{name}_mb_s"] = round(size / median(disk))
        results[f"get_{name}_mb_s"] = round(size / median(wall for wall, _ in view))
        results[f"get_{name}_share"] = round(median(d / wall for d, (wall, _) in zip(disk, view, strict=True)), 2)
        results[f"get_{name}_cpu_s"] = round(median(cpu for _, cpu in view), 2)
    return results


def _forget(file: Path) -> None:
    """What of the file is in the system's memory."""
    with file.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(file: Path) -> None:
    with file.open("rb", buffering=0) as opened:
        while opened.read(PIECE):
            pass


def _table(found: Mapping[str, float]) -> list[str]:
    keys, size = f"{found['keys']:,} keys", f"{found['megabytes']} MB"
    rows = [
        (
            f"listing of {keys}, processor",
            "3 s",
            f"{found['list_cpu_s']} s (the first one {found['list_first_cpu_s']} s)",
        ),
        (f"listing of {keys}, clock", "", f"{found['list_wall_s']} s"),
        ("folders of a dataflow, one of which has them all, clock", "", f"{found['folders_wall_ms']} ms"),
        ("HEAD, processor", "1.5 ms", f"{found['head_cpu_ms']} ms"),
        ("HEAD, clock", "", f"{found['head_wall_ms']} ms"),
    ]
    for name, words in (("cold", "from the disk"), ("warm", "from the system's memory")):
        speed = f"{found[f'get_{name}_mb_s']} of {found[f'disk_{name}_mb_s']} MB/s"
        target = "60 %" if name == "cold" else ""
        rows.append(
            (f"GET of {size} {words} / reading the file", target, f"{found[f'get_{name}_share']:.0%} ({speed})")
        )
    rows.append((f"GET of {size}, processor", "", f"{found['get_warm_cpu_s']} s"))
    return ["| what | target | median |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)]


# --- the service ---


@contextmanager
def _serving(folder: Path, asked: argparse.Namespace) -> Iterator[Place]:
    command = [sys.executable, __file__, "--serve", str(folder)]
    command += ["--keys", str(asked.keys), "--megabytes", str(asked.megabytes)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
    ) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        store = S3Store(
            "default",
            endpoint=told["url"],
            access_key_id=told["access_key"],
            secret_access_key=told["secret_key"],
            region="headgate",
            client_options={"allow_http": True},
        )
        yield Place(process.pid, store, folder / told["file"])
        assert process.stdin is not None
        process.stdin.close()


def _serve(folder: Path, keys: int, megabytes: int) -> None:
    """Until the standard input ends. A line of the log for each answer goes to the standard error, as in a service."""
    logs.configure()
    url = f"sqlite:///{folder}/metadata.db"
    upgrade(url)
    services = Services(open_store(url), open_lake(str(folder)), Wake(), render, lambda *_: "")
    _fill(services, keys)
    file = _lay(services, folder, megabytes)
    key = s3_keys.create(Context(services.store), "benchmark", ["*"])
    with serving(services) as address:
        told = {
            "url": address,
            "access_key": key.id,
            "secret_key": s3_keys.secret_key(services.s3_secret, "default", key.id),
            "file": file,
        }
        print(json.dumps(told), flush=True)
        sys.stdin.read()


def _fill(services: Services, keys: int) -> None:
    entries = list[tree.Entry]()
    with services.store.begin() as tx:
        tx.put_traces([trace(1)], [])
    for start in range(0, keys, BATCH):
        fragments = [_fragment(number) for number in range(start, min(start + BATCH, keys))]
        with services.store.begin() as tx:
            tx.put_traces([], fragments)
        entries += [tree.Entry(f"day={number:06}/hour=1", f.id, f.content) for number, f in enumerate(fragments, start)]
    _commit(services, "flights.many", entries)


def _fragment(number: int) -> Fragment:
    content = Content(900, number, number)
    numbers = {name: number * place for place, name in enumerate(COLUMNS)}
    stats = {"numRecords": 900, "minValues": numbers, "maxValues": numbers, "nullCount": dict.fromkeys(COLUMNS, 0)}
    id = sha256(f"fragment {number}".encode()).digest()
    folder = f"default/flights/many/_frags/{id.hex()[:2]}/attempt{number}/_fragment={id.hex()}"
    file: FileEntry = {"path": f"{folder}/part-00000.parquet", "size": 70_000 + number, "rows": 900, "stats": stats}
    return Fragment(id, SCHEMA, content, (file,), "flights.many", f"attempt{number}")


def _lay(services: Services, folder: Path, megabytes: int) -> str:
    """One file of so many bytes that is a dataset. Its path in the folder."""
    path = "default/flights/large/_frags/00/attempt/part-00000.parquet"
    file = folder / path
    file.parent.mkdir(parents=True)
    with file.open("wb") as opened:
        for _ in range(megabytes):
            opened.write(os.urandom(1_000_000))
        os.fsync(opened.fileno())
    content, id = Content(1, 1, 1), sha256(b"large").digest()
    entry: FileEntry = {"path": path, "size": megabytes * 1_000_000, "rows": 1, "stats": {}}
    with services.store.begin() as tx:
        tx.put_traces([], [Fragment(id, SCHEMA, content, (entry,), "flights.large", "attempt")])
    _commit(services, "flights.large", [tree.Entry("", id, content)])
    return path


def _commit(services: Services, dataset: str, entries: list[tree.Entry]) -> None:
    with services.store.begin() as tx:
        root = tree.build(tx, entries)
        made = state(
            1, dataset, root=root, schema=SCHEMA, partitions=len(entries), rows=900 * len(entries), at=tx.now()
        )
        tx.commit_state(made, 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What the S3 view costs.")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="write the result and the page")
    parser.add_argument("--folder", type=Path, help="where the files are to lie, for a while")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()

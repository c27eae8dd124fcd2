"""The S3 view as a service in a process of its own, over states that are made up: SQLite and a
local folder.

    python -m tests.servers.s3_view FOLDER KEYS MEGABYTES

`flights.many` has as many partitions, which are rows of the database alone, with statistics of 18
columns as those of flights have; `flights.large` is one file of as many million bytes. It ends with
its standard input. Does not belong here: what is asked of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from obstore.store import S3Store

from controlplane import logs
from controlplane.api.services import Services
from controlplane.core import tree
from controlplane.core.model.tasks import Fragment
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import s3_keys
from controlplane.reconciler.wake import WakeCounter
from controlplane.store import open_store, upgrade
from dataplane.contract.identity import Content
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import field_of, struct_of
from tests.store.examples import state
from tests.unit.api.world import render, serving

ROOT = Path(__file__).resolve().parents[2]
MANY, LARGE = "main/flights/many/", "main/flights/large/"
SECRETS = 6  # keys that there are
BATCH = 5000
COLUMNS = [f"column_{number}" for number in range(18)]
SCHEMA = struct_of(field_of(name, "long") for name in COLUMNS)


@dataclass(frozen=True)
class Running:
    """`keys`: access keys and secret keys, which read everything. `file`: what `flights.large`
    is."""

    process: subprocess.Popen[bytes]
    url: str
    keys: tuple[tuple[str, str], ...]
    file: Path

    def store(self, key: int = 0) -> S3Store:
        access_key, secret_key = self.keys[key]
        return S3Store(
            "default",
            endpoint=self.url,
            access_key_id=access_key,
            secret_access_key=secret_key,
            region="headgate",
            client_options={"allow_http": True},
        )

    def descriptors(self) -> int:
        """Open files and connections."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def memory(self) -> int:
        """Bytes of its own."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running(folder: Path, keys: int, megabytes: int) -> Iterator[Running]:
    """Its log is in the folder."""
    command = [
        sys.executable,
        "-m",
        "tests.servers.s3_view",
        str(folder),
        str(keys),
        str(megabytes),
    ]
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADGATE_")}
    own["PYTHONPATH"] = f"{ROOT}{os.pathsep}{own.get('PYTHONPATH', '')}"
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=own
        )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline())
            yield Running(
                process, told["url"], tuple(map(tuple, told["keys"])), folder / told["file"]
            )
        finally:
            process.stdin.close()
            process.wait()


def main(folder: Path, keys: int, megabytes: int) -> None:
    logs.configure()  # a line for each answer, as in a service
    url = f"sqlite:///{folder}/metadata.db"
    upgrade(url)
    services = Services(
        open_store(url), open_lake(str(folder)), WakeCounter(), render, lambda *_: ""
    )
    fill(services, keys)
    file = _lay(services, folder, megabytes)
    made = [
        s3_keys.create(Context(services.store), f"key {number}", ["*"]).id
        for number in range(SECRETS)
    ]
    secrets = [(key, s3_keys.secret_key(services.s3_secret, "default", key)) for key in made]
    with serving(services) as address:
        sys.stdout.write(json.dumps({"url": address, "keys": secrets, "file": file}) + "\n")
        sys.stdout.flush()
        sys.stdin.read()


def fill(services: Services, keys: int) -> None:
    """Partitions without files."""
    entries = list[tree.Entry]()
    for start in range(0, keys, BATCH):
        fragments = [_fragment(number) for number in range(start, min(start + BATCH, keys))]
        with services.store.begin() as tx:
            tx.traces.put([], fragments)
        made = enumerate(fragments, start)
        entries += [tree.Entry(f"day={number:06}/hour=1", f.id, f.content) for number, f in made]
    _commit(services, "flights.many", entries)


def _fragment(number: int) -> Fragment:
    content = Content(900, number, number)
    numbers = {name: number * place for place, name in enumerate(COLUMNS)}
    stats = {
        "numRecords": 900,
        "minValues": numbers,
        "maxValues": numbers,
        "nullCount": dict.fromkeys(COLUMNS, 0),
    }
    id = sha256(f"fragment {number}".encode()).digest()
    folder = f"default/flights/many/_frags/{id.hex()[:2]}/attempt{number}/_fragment={id.hex()}"
    file: FileEntry = {
        "path": f"{folder}/part-00000.parquet",
        "size": 70_000 + number,
        "rows": 900,
        "stats": stats,
    }
    return Fragment(id, SCHEMA, content, (file,), "flights.many", f"attempt{number}")


def _lay(services: Services, folder: Path, megabytes: int) -> str:
    """One file that is a dataset. Its path in the folder."""
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
        tx.traces.put([], [Fragment(id, SCHEMA, content, (entry,), "flights.large", "attempt")])
    _commit(services, "flights.large", [tree.Entry("", id, content)])
    return path


def _commit(services: Services, dataset: str, entries: list[tree.Entry]) -> None:
    with services.store.begin() as tx:
        root = tree.build(tx.nodes, entries)
        rows = 900 * len(entries)
        made = state(
            1, dataset, root=root, schema=SCHEMA, partitions=len(entries), rows=rows, at=tx.now()
        )
        tx.states.commit(made, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))

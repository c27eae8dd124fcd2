"""The `files` write connector on a real S3 server: what counts, whose it is, and what a crash
leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import cast

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataplane.connectors.files.file_writer import opened, write_tasks
from dataplane.connectors.files.write_remote import RemoteTarget
from dataplane.contract.claims import WriteTask
from dataplane.contract.jobs import WriteJob
from dataplane.contract.schemas import Json, field_of, struct_of
from dataplane.listing.files import check_folder
from dataplane.storage.lake import LocalLake
from dataplane.storage.source_stores import StoreAccess, open_root
from dataplane.task_failures import TaskFailure
from tests.servers.faulty import Faulty

SCHEMA = struct_of([field_of("n", "long")])
DIES = """
import json, sys
from pathlib import Path
from dataplane.connectors.files.file_writer import write_tasks
from dataplane.storage.lake import LocalLake
job, lake, task = json.load(sys.stdin)
write_tasks(job, LocalLake(Path(lake)), task)
"""


class World:
    """Fragments on disk, and a target on the server."""

    def __init__(self, folder: Path, uri: str) -> None:
        open_root.cache_clear()
        self.lake, self.uri = LocalLake(folder), uri
        self.prefix = uri.removeprefix("s3://lake/")

    def job(self, **more: Json) -> WriteJob:
        plain = {
            "path": self.uri,
            "format": "csv",
            "options": {},
            "owner": "flow.out",
            "schema": SCHEMA,
        }
        return cast("WriteJob", plain | more)

    def fragment(self, *rows: int) -> str:
        name = f"{len(list(self.lake.root.iterdir()))}.parquet"
        pq.write_table(pa.table({"n": pa.array(rows, pa.int64())}), self.lake.root / name)
        return name

    def dies(self, failpoint: str, task: WriteTask) -> None:
        """A worker that is killed at a named place."""
        killed = subprocess.run(
            [sys.executable, "-c", DIES],
            input=json.dumps([self.job(), str(self.lake.root), task]).encode(),
            env={**os.environ, "HEADGATE_FAILPOINTS": failpoint},
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL

    def write(
        self, partition: str, *rows: int, remove: bool = False, generation: int = 0, **more: Json
    ) -> Json:
        return write_tasks(
            self.job(**more),
            self.lake,
            self.task(partition, *rows, remove=remove, generation=generation),
        )

    def task(
        self, partition: str, *rows: int, remove: bool = False, generation: int = 0
    ) -> WriteTask:
        task: WriteTask = {
            "task": "t",
            "epoch": 1,
            "partition": partition,
            "generation": generation,
        }
        task["files"] = [self.fragment(*rows)]
        if remove:
            task["remove"] = True
        return task

    def objects(self) -> dict[str, bytes]:
        store = open_root("s3://lake", StoreAccess())
        names = [o["path"] for page in obstore.list(store, prefix=self.prefix) for o in page]
        return {
            n.removeprefix(f"{self.prefix}/"): bytes(obstore.get(store, n).bytes()) for n in names
        }

    def counted(self, partition: str) -> int | None:
        """The row that the marker of a partition names."""
        found = self.objects()
        names = json.loads(found[f"{partition}/_headgate.json"])["files"]
        return int(found[f"{partition}/{names[0]}"].split()[1]) if names else None

    def put(self, name: str, body: bytes = b"x") -> None:
        obstore.put(open_root("s3://lake", StoreAccess()), f"{self.prefix}/{name}", body)

    def rows(self) -> dict[str, str]:
        """What counts, by the markers, by partition; nothing else is there."""
        found = self.objects()
        markers = {
            n.removesuffix("/_headgate.json"): json.loads(b)
            for n, b in found.items()
            if "/_headgate.json" in n
        }
        named = {
            f"{key}/{name}": key for key, marker in markers.items() for name in marker["files"]
        }
        assert set(found) == {
            "_headgate.json",
            *named,
            *(f"{key}/_headgate.json" for key in markers),
        }
        return {key: found[name].decode().replace('"', "") for name, key in named.items()}


@pytest.fixture
def world(tmp_path: Path, uri: str) -> World:
    return World(tmp_path, uri)


def refused(world: World, partition: str, **more: Json) -> str:
    with pytest.raises(TaskFailure) as caught:
        world.write(partition, 1, **more)
    return caught.value.condition


def test_a_partition_is_replaced_and_removed(world: World) -> None:
    assert world.write("a b/1", 1, 2)["rows"] == 2
    world.write("c", 3)
    world.write("a b/1", 4)
    assert world.rows() == {"a%20b%2F1": "n\n4\n", "c": "n\n3\n"}
    world.write("c", remove=True)
    world.write("never there", remove=True)
    assert world.rows() == {"a%20b%2F1": "n\n4\n"}


def test_a_target_whose_marker_was_removed_moves_to_the_folders_of_hive(world: World) -> None:
    north, gone = "place=North%20America/year=2013", "place=gone/year=2013"
    world.put("_headgate.json", json.dumps({"owner": "flow.out", "version": 1}).encode())
    for key in (north, gone):
        world.write(key, 1, generation=1, by_columns=True)
    assert "place%3DNorth%2520America%2Fyear%3D2013" in world.rows()
    obstore.delete(open_root("s3://lake", StoreAccess()), f"{world.prefix}/_headgate.json")
    world.write(north, 2, generation=2, by_columns=True)
    world.write(gone, remove=True, generation=2, by_columns=True)
    assert world.rows() == {north: "n\n2\n"}


@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize("late", [4, 6])
def test_what_came_meanwhile_is_not_replaced(
    world: World, removes: bool, was_there: bool, late: int
) -> None:
    """A writer is stopped when its rows are there, and goes on once another is done, which has
    swept them."""
    if was_there:
        world.write("a", 1, generation=3)

    class Stopped(RemoteTarget):
        def _put(self, path: str, body: bytes | Path) -> None:
            super()._put(path, body)
            world.write("a", 5, remove=removes, generation=5)

    with pytest.raises(TaskFailure) as caught:
        Stopped(world.job()).replace("a", [world.lake.open(world.fragment(4))], late)
    assert (caught.value.condition, caught.value.kind) == ("target-busy", "infrastructure")
    assert world.rows() == ({} if removes else {"a": "n\n5\n"})


def test_nothing_is_written_over_a_later_generation(world: World) -> None:
    world.write("a", 5, generation=5)
    assert refused(world, "a", generation=4) == "target-ahead"
    with pytest.raises(TaskFailure, match="has seen generation 5"):
        world.write("a", remove=True, generation=4)
    world.write("a", remove=True, generation=6)
    assert refused(world, "a", generation=5) == "target-ahead"
    assert world.rows() == {}
    world.write("a", 7, generation=7)
    assert world.rows() == {"a": "n\n7\n"}


def test_two_owners_never_share_a_target(world: World) -> None:
    world.write("a", 1)
    assert refused(world, "a", owner="another") == "target-owned"
    assert world.rows() == {"a": "n\n1\n"}


@pytest.mark.parametrize(
    "name", ["a/mine.csv", "a/part-00000.csv", "a/_headgate.json", "a/deeper/x"]
)
def test_what_others_have_put_is_left_alone(world: World, name: str) -> None:
    world.put(name, b'{"owner": "somebody"}')
    assert refused(world, "a") == "target-occupied"
    with pytest.raises(TaskFailure):
        world.write("a", remove=True)
    assert set(world.objects()) == {"_headgate.json", name}


def test_what_a_crash_left_behind_is_swept(world: World) -> None:
    """Before the marker moved, the old rows count; after it, the new ones: whatever else is ours
    goes."""
    world.write("a", 1)
    (old,) = [n for n in world.objects() if n.startswith("a/part")]
    world.put(old.replace(old.split("-")[3][:4], "0000", 1), b"half")
    assert len([n for n in world.objects() if n.startswith("a/part")]) == 2
    world.write("a", 2)
    assert world.rows() == {"a": "n\n2\n"}


@pytest.mark.parametrize(
    ("failpoint", "removes", "counts"),
    [
        ("files-put", False, 1),  # before the marker
        ("files-marked", False, 2),  # before the old rows go
        ("files-unmarked", True, None),
        ("files-written", False, 2),
    ],
)
def test_killed_in_the_middle(
    world: World, failpoint: str, removes: bool, counts: int | None
) -> None:
    """At each moment the marker names the rows that count; the same task, done again, leaves these
    alone."""
    world.write("a", 1, generation=1)
    world.put("theirs.txt")
    task = world.task("a", 2, remove=removes, generation=2)
    world.dies(failpoint, task)
    assert world.counted("a") == counts
    write_tasks(world.job(), world.lake, task)
    obstore.delete(open_root("s3://lake", StoreAccess()), f"{world.prefix}/theirs.txt")
    assert world.rows() == ({} if removes else {"a": "n\n2\n"})


def test_a_put_without_an_answer_is_ours(world: World, line: Faulty) -> None:
    open_root.cache_clear()
    faults = [
        line.add("unanswered", "PUT", "_headgate.json"),
        line.add("slow-down", "PUT", "part-00000", times=2),
    ]
    world.write("a", 1)
    assert [fault.met for fault in faults] == [1, 2]
    assert world.rows() == {"a": "n\n1\n"}
    faults = [line.add("unanswered", "PUT", "a/_headgate.json") for _ in range(2)]
    world.write("a", 2)
    assert (sum(fault.met for fault in faults), world.rows()) == (2, {"a": "n\n2\n"})


def test_parquet_and_a_connection_check(world: World) -> None:
    world.write("a", 5, format="parquet")
    (name,) = [n for n in world.objects() if n.endswith(".parquet")]
    assert pq.read_table(pa.BufferReader(world.objects()[name])).to_pylist() == [{"n": 5}]
    check_folder({"connector": "files", "place": world.uri, "options": {}, "writes": True})
    with pytest.raises(TaskFailure) as caught:
        opened(world.job(path="s3://nowhere/x")).open(0.0)
    assert caught.value.condition == "bucket-missing"

"""The `files` write connector on real folders."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataplane.connectors.files import write_local
from dataplane.connectors.files.file_writer import write_tasks
from dataplane.connectors.files.write_local import ABANDONED_S, FilesTarget
from dataplane.contract.claims import WriteTask
from dataplane.contract.schemas import Json, Schema, Type, field_of, struct_of
from dataplane.fragments.arrow import arrow_schema
from dataplane.storage.lake import LocalLake
from dataplane.task_failures import TaskFailure


def struct(**columns: Type) -> Schema:
    return struct_of(field_of(n, t) for n, t in columns.items())


SCHEMA = struct(
    n="long",
    text="string",
    price="decimal(10,2)",
    tiny="decimal(38,10)",
    at="timestamp",
    local="timestamp_ntz",
    day="date",
    raw="binary",
    tags={"type": "array", "elementType": "timestamp", "containsNull": True},
    more="double",
)
ROW = {
    "n": 1,
    "text": 'a,"b"\nä',
    "price": Decimal("12.30"),
    "tiny": Decimal("1E-10"),
    "at": datetime(2013, 1, 2, 3, 4, 5, tzinfo=UTC),
    "local": datetime.fromisoformat("2013-01-02T03:04:05.000678"),
    "day": date(2013, 1, 2),
    "raw": b"\xff\x00",
    "tags": [datetime(2013, 1, 2, tzinfo=UTC), None],
}
EMPTY = {"n": 2, "text": ""}
JOB: Json = {"format": "csv", "options": {}, "owner": "flow.out", "schema": SCHEMA}


class World:
    def __init__(self, root: Path) -> None:
        self.lake, self.target = root / "lake", root / "out" / "target"
        self.lake.mkdir()
        self.count = 0

    def fragment(self, *rows: dict[str, Any], columns: int = 9) -> str:
        """A file that lacks the last columns of the dataset."""
        self.count += 1
        schema = pa.schema(list(arrow_schema(SCHEMA))[:columns])
        pq.write_table(
            pa.Table.from_pylist(list(rows), schema), self.lake / f"{self.count}.parquet"
        )
        return f"{self.count}.parquet"

    def write(
        self,
        partition: str,
        *files: str,
        kind: str = "csv",
        owner: str = "flow.out",
        **options: Json,
    ) -> Json:
        return self._run({"partition": partition, "files": list(files)}, kind, owner, options)

    def remove(self, partition: str, owner: str = "flow.out", generation: int = 0) -> Json:
        return self._run(
            {"partition": partition, "remove": True, "generation": generation}, "csv", owner, {}
        )

    def put(self, partition: str, row: int, generation: int) -> Json:
        task = {
            "partition": partition,
            "files": [self.fragment({"n": row})],
            "generation": generation,
        }
        return self._run(task, "csv", "flow.out", {"header": False})

    def _run(
        self, task: Json, kind: str, owner: str, options: Json, extra: Json | None = None
    ) -> Json:
        job: Json = {
            **JOB,
            "path": str(self.target),
            "format": kind,
            "options": options,
            "owner": owner,
        }
        job |= extra or {}
        return write_tasks(
            job, LocalLake(self.lake), cast("WriteTask", {"task": "", "epoch": 1, **task})
        )

    def files(self) -> dict[str, bytes]:
        """What a reader sees: paths without hidden files."""
        return {
            str(f.relative_to(self.target)): f.read_bytes()
            for f in sorted(self.target.rglob("*"))
            if f.is_file() and not f.name.startswith("_")
        }


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_csv(world: World) -> None:
    result = world.write("2013-01.csv", world.fragment(ROW), world.fragment(EMPTY, columns=2))
    (body,) = world.files().values()
    assert result == {"rows": 2, "bytes": len(body)}
    assert list(world.files()) == ["2013-01.csv/part-00000.csv"]
    assert body.decode() == (
        '"n","text","price","tiny","at","local","day","raw","tags","more"\n'
        '1,"a,""b""\nä",12.30,"0.0000000001","2013-01-02T03:04:05.000000Z","2013-01-02T03:04:05.000678",2013-01-02,'
        '"/wA=","[""2013-01-02T00:00:00.000000Z"",null]",\n'
        '2,"",,,,,,,,\n'
    )


def test_csv_options(world: World) -> None:
    world.write(
        "k", world.fragment({"n": 1}), header=False, sep=";", nullValue="NA", compression="gzip"
    )
    ((name, body),) = world.files().items()
    assert name == "k/part-00000.csv.gz"
    assert gzip.decompress(body) == b"1" + b";NA" * 9 + b"\n"


def test_json(world: World) -> None:
    world.write("k", world.fragment(ROW), kind="json")
    (body,) = world.files().values()
    assert json.loads(body) == {
        "n": 1,
        "text": 'a,"b"\nä',
        "price": "12.30",
        "tiny": "0.0000000001",
        "at": "2013-01-02T03:04:05.000000Z",
        "local": "2013-01-02T03:04:05.000678",
        "day": "2013-01-02",
        "raw": "/wA=",
        "tags": ["2013-01-02T00:00:00.000000Z", None],
        "more": None,
    }


def test_parquet(world: World) -> None:
    world.write("k", world.fragment(ROW), world.fragment(EMPTY, columns=2), kind="parquet")
    assert list(world.files()) == ["k/part-00000.snappy.parquet"]
    table = pq.read_table(world.target / "k" / "part-00000.snappy.parquet")
    assert table.schema == arrow_schema(SCHEMA)
    assert table.to_pylist() == [ROW | {"more": None}, dict.fromkeys(SCHEMA_NAMES) | EMPTY]


SCHEMA_NAMES = [f["name"] for f in SCHEMA["fields"]]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_equal_input_gives_equal_bytes(world: World, kind: str) -> None:
    file = world.fragment(ROW, EMPTY)
    world.write("a", file, kind=kind, compression="gzip")
    world.write("b", file, kind=kind, compression="gzip")
    assert len(set(world.files().values())) == 1


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_an_empty_partition_is_a_file_without_rows(world: World, kind: str) -> None:
    assert world.write("k", kind=kind)["rows"] == 0
    assert len(world.files()) == 1


def test_partitions_are_replaced_and_removed_alone(world: World) -> None:
    world.write("a", world.fragment({"n": 1}))
    world.write("b", world.fragment({"n": 2}))
    before = world.files()
    world.write("a", world.fragment({"n": 3}))
    after = world.files()
    assert after["b/part-00000.csv"] == before["b/part-00000.csv"]
    assert b"3" in after["a/part-00000.csv"]
    world.remove("b")
    world.remove("b")
    assert list(world.files()) == ["a/part-00000.csv"]
    past, *others = sorted(p.name for p in world.target.iterdir())
    assert (past.startswith("_headgate-"), others) == (True, ["_headgate.json", "a"])
    FilesTarget(JOB | {"path": str(world.target)}).open(time.time() + ABANDONED_S * 2)
    assert sorted(p.name for p in world.target.iterdir()) == ["_headgate.json", "a"], (
        "what was removed is forgotten"
    )


@pytest.mark.parametrize("late", [4, 6])
@pytest.mark.parametrize("removes", [True, False])
@pytest.mark.parametrize("was_there", [True, False])
def test_what_came_meanwhile_is_replaced_by_nothing_older(
    world: World, removes: bool, was_there: bool, late: int
) -> None:
    """A writer is stopped while it reads its rows, and goes on once a later one is done."""
    if was_there:
        world.put("a", 1, generation=3)
    stopped = FilesTarget(JOB | {"path": str(world.target), "options": {"header": False}})
    stopped.open(time.time())

    def rows() -> Iterator[Any]:
        if removes:
            world.remove("a", generation=5)
        else:
            world.put("a", 5, generation=5)
        yield LocalLake(world.lake).open(world.fragment({"n": late}))

    if late > 5:
        stopped.replace("a", rows(), late)
        assert [body[:1] for body in world.files().values()] == [b"6"]
        return
    with pytest.raises(TaskFailure) as caught:
        stopped.replace("a", rows(), late)
    assert (caught.value.condition, caught.value.kind) == ("target-ahead", "infrastructure")
    assert [body[:1] for body in world.files().values()] == [b"5"] * (not removes)
    with pytest.raises(TaskFailure, match="has seen generation 5"):
        world.remove("a", generation=4)
    world.put("a", 6, generation=6)
    world.remove("a", generation=6)
    world.put("a", 7, generation=6)
    assert [body[:1] for body in world.files().values()] == [b"7"]
    assert sorted(p.name for p in world.target.iterdir()) == ["_headgate.json", "a"]


def test_a_writer_waits_for_another_that_swaps(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for one that was stopped there not for ever."""
    monkeypatch.setattr(write_local, "TRIES", 3)
    world.put("a", 1, generation=1)
    with (world.target / "_headgate.json").open("r+b") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        with pytest.raises(TaskFailure) as caught:
            world.put("a", 2, generation=2)
    assert (caught.value.condition, caught.value.kind) == ("target-busy", "infrastructure")
    world.put("a", 3, generation=2)
    assert [body[:1] for body in world.files().values()] == [b"3"]


def test_what_goes_while_it_is_looked_at_is_passed_over(world: World) -> None:
    """Folders of other writers, which are done with them."""
    world.put("a", 1, generation=1)
    (world.target / "_headgate-0123").symlink_to(world.target / "gone")
    world.put("a", 2, generation=2)
    assert [body[:1] for body in world.files().values()] == [b"2"]


def test_copies_of_older_versions_are_taken_over(world: World) -> None:
    """Their markers tell no generation."""
    world.put("a", 1, generation=7)
    marker = world.target / "a" / "_headgate.json"
    marker.write_text(json.dumps({"owner": "flow.out", "version": 1, "files": ["part-00000.csv"]}))
    world.put("a", 2, generation=1)
    assert [body[:1] for body in world.files().values()] == [b"2"]


@pytest.mark.parametrize(
    "key", ["", ".", "..", "a/b", "carrier=UA", "ä🎉", "_x", "a%2Fb", "x" * 255]
)
def test_any_key_is_a_folder_in_the_target(world: World, key: str) -> None:
    world.write(key, world.fragment({"n": 1}))
    (folder,) = {Path(f).parent for f in world.files()}
    assert len(folder.parts) == 1
    world.remove(key)
    assert world.files() == {}


def test_a_key_that_no_folder_can_have(world: World) -> None:
    with pytest.raises(TaskFailure, match="no folder can be named"):
        world.write("ä" * 100, world.fragment({"n": 1}))


def test_another_owners_target_is_refused(world: World) -> None:
    world.write("a", world.fragment({"n": 1}))
    before = world.files()
    for attempt in (
        lambda: world.write("a", owner="other.out"),
        lambda: world.remove("a", owner="other.out"),
    ):
        with pytest.raises(TaskFailure, match=r"belongs to flow\.out") as caught:
            attempt()
        assert (caught.value.condition, caught.value.kind) == ("target-owned", "user")
    assert world.files() == before


def test_foreign_files_are_left_alone(world: World) -> None:
    (world.target / "a").mkdir(parents=True)
    (world.target / "a" / "mine.txt").write_text("precious")
    (world.target / "notes.txt").write_text("precious")
    with pytest.raises(TaskFailure, match="left alone"):
        world.write("a", world.fragment({"n": 1}))
    with pytest.raises(TaskFailure, match="left alone"):
        world.remove("a")
    world.write("b", world.fragment({"n": 1}))
    (world.target / "b" / "mine.txt").write_text("precious")
    with pytest.raises(TaskFailure, match=r"mine\.txt"):
        world.write("b", world.fragment({"n": 2}))
    texts = [f.read_text() for f in world.target.rglob("*.txt")]
    assert texts == ["precious"] * 3


def test_a_link_in_place_of_a_folder_is_not_followed(world: World, tmp_path: Path) -> None:
    world.write("a", world.fragment({"n": 1}))
    elsewhere = tmp_path / "elsewhere"
    (world.target / "a").rename(elsewhere)
    (world.target / "a").symlink_to(elsewhere)
    with pytest.raises(TaskFailure, match="left alone"):
        world.remove("a")
    assert (elsewhere / "part-00000.csv").exists()


def test_a_failed_write_leaves_the_old_rows(world: World) -> None:
    world.write("a", world.fragment({"n": 1}))
    before = world.files()
    with pytest.raises(TaskFailure, match=r"missing\.parquet is not there") as told:
        world.write("a", world.fragment({"n": 2}), "missing.parquet")
    assert (told.value.kind, told.value.condition) == ("infrastructure", "lake-file-gone")
    assert world.files() == before
    assert sorted(p.name for p in world.target.iterdir()) == ["_headgate.json", "a"]


def test_what_a_crash_left_is_swept_a_day_later(world: World) -> None:
    world.write("a", world.fragment({"n": 1}))
    left = world.target / "_headgate-0123"
    left.mkdir()
    job = JOB | {"path": str(world.target)}
    FilesTarget(job).open(os.stat(left).st_mtime + ABANDONED_S / 2)
    assert left.exists()
    FilesTarget(job).open(os.stat(left).st_mtime + ABANDONED_S * 2)
    assert not left.exists()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("orc", {}),
        ("csv", {"escape": "x"}),
        ("csv", {"sep": "||"}),
        ("json", {"compression": "lzo"}),
    ],
)
def test_what_is_not_supported_is_said(world: World, kind: str, options: dict[str, Json]) -> None:
    with pytest.raises(TaskFailure) as caught:
        world.write("a", kind=kind, **options)
    assert caught.value.condition == "not-supported"


def test_a_target_that_goes_on_is_not_begun_anew(world: World) -> None:
    """Else partitions that do not change would be missing."""
    job = JOB | {"path": str(world.target)}
    on = job | {"goes_on": True}
    with pytest.raises(TaskFailure) as caught:
        FilesTarget(on).open(0)
    assert (caught.value.condition, world.target.exists()) == ("target-gone", False)
    FilesTarget(job).open(0)
    FilesTarget(on).open(0)

"""The `delta` write connector on real folders: a table elsewhere that is what the dataset is,
whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from dataplane.connectors.delta.delta_writer import TRIES, FileCopies, difference, writing
from dataplane.connectors.delta.log import snapshot
from dataplane.connectors.files.marker import MARKER
from dataplane.contract.claims import WriteTask
from dataplane.contract.schemas import Json, Schema
from dataplane.storage.lake import LocalLake
from dataplane.task_failures import TaskFailure
from tests.unit.delta.test_log import VECTOR, add, commit
from tests.unit.write.test_files import struct

ONE = struct(n="long")
TWO = struct(n="long", more="string")
FAILPOINTS = ("write-delta-copying", "write-delta-copied", "write-delta-committed")
DIES = """\
import json, sys
from pathlib import Path
from dataplane.storage.lake import LocalLake
from dataplane.connectors.delta.delta_writer import writing
job, lake, task = json.loads(sys.stdin.read())
with writing(job, LocalLake(Path(lake))) as write:
    write(task)
"""


class World:
    """A lake with fragments, and a table elsewhere."""

    def __init__(self, root: Path) -> None:
        self.lake, self.table = root / "lake", root / "out" / "table"
        self.lake.mkdir()
        self.generation = 0

    def fragment(self, *numbers: int, copies: int = 1, **more: Any) -> Json:
        """A fragment named by its rows."""
        id = f"{abs(hash((numbers, *more))):032x}"[:32]
        path = f"default/flow/rows/_frags/{id[:2]}/{id}/part-0.parquet"
        (self.lake / path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.table({"n": numbers, **{k: [v] * len(numbers) for k, v in more.items()}}),
            self.lake / path,
        )
        entry = {
            "path": path,
            "size": (self.lake / path).stat().st_size,
            "rows": len(numbers),
            "stats": {},
        }
        return {"id": id, "copies": copies, "files": [entry]}

    def job(self, owner: str = "flow.out 1", schema: Schema = ONE) -> Json:
        return {
            "path": str(self.table),
            "format": "delta",
            "options": {},
            "owner": owner,
            "schema": schema,
        }

    def task(self, *fragments: Json, generation: int | None = None) -> WriteTask:
        self.generation = generation or self.generation + 1
        told = {
            "task": "0" * 64,
            "epoch": 1,
            "partition": "",
            "generation": self.generation,
            "fragments": fragments,
        }
        return cast("WriteTask", told)

    def write(self, *fragments: Json, generation: int | None = None, **job: Any) -> Json:
        with writing(self.job(**job), LocalLake(self.lake)) as write:
            return write(self.task(*fragments, generation=generation))

    def dies(self, failpoint: str, task: WriteTask) -> None:
        """A writer that is killed in the middle."""
        killed = subprocess.run(
            [sys.executable, "-c", DIES],
            input=json.dumps([self.job(), str(self.lake), task]).encode(),
            env={**os.environ, "HEADGATE_FAILPOINTS": failpoint},
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL

    def rows(self) -> list[Any]:
        table = DeltaTable(str(self.table)).to_pyarrow_table()
        return (
            sorted(table.to_pylist(), key=repr)
            if len(table.column_names) > 1
            else sorted(table["n"].to_pylist())
        )

    def version(self) -> int:
        return DeltaTable(str(self.table)).version()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_generation_is_one_commit(world: World) -> None:
    a, b, c = world.fragment(1, 2), world.fragment(3), world.fragment(4)
    told = world.write(a, b)
    assert (told["rows"], told["version"], world.rows()) == (3, 0, [1, 2, 3])
    assert world.write(b, c)["version"] == 1
    assert world.rows() == [3, 4]
    table = DeltaTable(str(world.table))
    assert table.transaction_version("flow.out 1") == 2
    assert table.history(1)[0]["generation"] == "2"


def test_what_is_there_already_is_no_commit(world: World) -> None:
    a = world.fragment(1)
    world.write(a)
    assert world.write(a, generation=1)["version"] == 0
    assert world.write()["version"] == 1
    assert world.rows() == []


def test_a_generation_of_the_same_files_is_noted(world: World) -> None:
    a, b = world.fragment(1), world.fragment(2)
    world.write(a, generation=3)
    assert world.write(a, generation=5)["version"] == 1
    with pytest.raises(TaskFailure) as failure:
        world.write(b, generation=4)
    assert (failure.value.condition, world.rows()) == ("target-ahead", [1])
    assert world.write(a, generation=5)["version"] == 1


def test_equal_partitions_are_there_as_often(world: World) -> None:
    world.write(world.fragment(1, 2, copies=3))
    assert world.rows() == [1, 1, 1, 2, 2, 2]
    world.write(world.fragment(1, 2, copies=2))
    assert world.rows() == [1, 1, 2, 2]


def test_columns_that_come_and_go(world: World) -> None:
    old, new = world.fragment(1), world.fragment(2, more="x")
    world.write(old)
    world.write(old, new, schema=TWO)
    assert world.rows() == [{"n": 1, "more": None}, {"n": 2, "more": "x"}]
    before = set(DeltaTable(str(world.table)).file_uris())
    world.write(old, new, schema=ONE)
    assert world.rows() == [1, 2]
    assert not before & set(DeltaTable(str(world.table)).file_uris()), (
        "a table of other columns has files of its own"
    )
    world.write(old, schema=struct(n="string"))
    assert DeltaTable(str(world.table)).schema().to_json().count("string") == 1


def test_there_and_back_again(world: World) -> None:
    a, b = world.fragment(1), world.fragment(2)
    for wanted in ([a], [b], [a]):
        world.write(*wanted)
    assert world.rows() == [1]


@pytest.mark.parametrize("failpoint", FAILPOINTS)
def test_killed_in_the_middle(world: World, failpoint: str) -> None:
    a, b, c = (world.fragment(n) for n in (1, 2, 3))
    world.write(a, b)
    task = world.task(b, c)
    world.dies(failpoint, task)
    with writing(world.job(), LocalLake(world.lake)) as write:
        write(task)
    assert (world.rows(), world.version()) == ([2, 3], 1), "one commit, whoever made it"
    assert len(DeltaTable(str(world.table)).file_uris()) == 2


def test_killed_before_the_first_commit(world: World) -> None:
    task = world.task(world.fragment(1))
    world.dies("write-delta-copied", task)
    assert not DeltaTable.is_deltatable(str(world.table))
    with writing(world.job(), LocalLake(world.lake)) as write:
        write(task)
    assert (world.rows(), world.version()) == ([1], 0)


def test_two_writers_never_own_one_table(world: World) -> None:
    world.write(world.fragment(1))
    with pytest.raises(TaskFailure, match=r"belongs to flow\.out 1") as failure:
        world.write(world.fragment(2), owner="flow.out 2")
    assert failure.value.condition == "target-owned"
    assert world.rows() == [1]


def test_a_table_that_was_there_is_left_alone(world: World) -> None:
    write_deltalake(str(world.table), pa.table({"n": [7]}))
    with pytest.raises(TaskFailure) as failure:
        world.write(world.fragment(1))
    assert failure.value.condition == "target-occupied"
    assert world.rows() == [7]
    assert not (world.table / MARKER).exists()


def test_a_straggler_changes_nothing(world: World) -> None:
    world.write(world.fragment(1), generation=5)
    with pytest.raises(TaskFailure) as failure:
        world.write(world.fragment(2), generation=4)
    assert failure.value.condition == "target-ahead"
    assert world.rows() == [1]


def test_what_others_did_to_the_table_is_put_right(world: World) -> None:
    a, b = world.fragment(1), world.fragment(2)
    world.write(a, b)
    write_deltalake(str(world.table), pa.table({"n": [7]}), mode="append")
    DeltaTable(str(world.table)).delete("n = 2")
    world.write(a, b)
    assert world.rows() == [1, 2]


@pytest.mark.parametrize("is_wanted", [True, False])
def test_rows_that_others_deleted_by_vectors_are_put_right(
    world: World, *, is_wanted: bool
) -> None:
    """A file with a vector is removed by more than its path: it stayed, whatever the dataset
    had."""
    a, b = world.fragment(1), world.fragment(2, 3)
    world.write(a, b)
    found = snapshot(world.table)
    [path] = [file["path"] for file in found.files if b["id"] in file["path"]]
    named = ["deletionVectors"]
    features = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": named,
        "writerFeatures": named,
    }
    vectored = {**add(path, {**VECTOR, "cardinality": 1})["add"], "dataChange": True}
    gone = {"path": path, "dataChange": True}
    commit(world.table, 1, {"protocol": features}, {"remove": gone}, {"add": vectored})
    wanted = [a, b] if is_wanted else [a]
    world.write(*wanted)
    assert not [file for file in snapshot(world.table).files if file.get("deletionVector")]
    assert world.rows() == ([1, 2, 3] if is_wanted else [1])


def test_a_file_that_is_gone_from_the_lake_fails_the_write(world: World) -> None:
    a = world.fragment(1)
    (world.lake / a["files"][0]["path"]).unlink()
    with pytest.raises(OSError, match="No such file"):
        world.write(a)
    assert not DeltaTable.is_deltatable(str(world.table))
    assert TRIES > 1


def test_no_path_is_added_that_is_active() -> None:
    entry: Any = {"path": "x/f.parquet", "size": 1, "rows": 1, "stats": {}}
    id = "ab" * 16
    first = difference([FileCopies(id, "f.parquet", 2, entry)], {}, is_replacement=False)
    assert list(first.adds) == [f"ab/{id}-0/f.parquet", f"ab/{id}-1/f.parquet"]
    active = {f"ab/{id}-1/f.parquet": 1, "strange.parquet": 1}
    second = difference([FileCopies(id, "f.parquet", 2, entry)], active, is_replacement=False)
    assert (list(second.adds), second.removes) == ([f"ab/{id}-0/f.parquet"], ("strange.parquet",))
    third = difference([FileCopies(id, "f.parquet", 2, entry)], active, is_replacement=True)
    assert list(third.adds) == [f"ab/{id}-0/f.parquet", f"ab/{id}-2/f.parquet"]
    assert len(third.removes) == 2

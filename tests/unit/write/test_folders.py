"""Folders of a target of files: as Hive names them, encoded once, and by the layout that the target
began with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from dataplane.connectors.files.partition_folders import FIRST, NEWEST, folder_of, places_of
from dataplane.contract.key_folders import EMPTY, NULL
from dataplane.contract.keys import column_key
from dataplane.contract.schemas import Json
from dataplane.task_failures import TaskFailure
from tests.unit.write.test_files import World

MARKER = "_headgate.json"
NORTH = column_key(["text"], ["North America"])


class Keyed(World):
    """A target of a dataset whose keys are plain values of columns."""

    by_columns = True
    goes_on = False

    def _run(
        self, task: Json, kind: str, owner: str, options: Json, extra: Json | None = None
    ) -> Json:
        extra = {"by_columns": True} if self.by_columns else {}
        if self.goes_on:
            extra["goes_on"] = True
        return super()._run(task, kind, owner, options, extra)

    def rows(self, key: str, text: str | None, generation: int = 1) -> None:
        task = {
            "partition": key,
            "files": [self.fragment({"n": 1, "text": text})],
            "generation": generation,
        }
        self._run(task, "parquet", "flow.out", {})

    def folders(self) -> list[str]:
        return [str(Path(name).parent) for name in self.files()]

    def begin_in_the_first_layout(self) -> None:
        self.target.mkdir(parents=True)
        (self.target / MARKER).write_text(json.dumps({"owner": "flow.out", "version": 1}))


@pytest.fixture
def world(tmp_path: Path) -> Keyed:
    return Keyed(tmp_path)


@pytest.mark.parametrize(
    ("texts", "folder"),
    [
        (["North America"], "a=North%20America"),
        (["North America", "x/y=z"], "a=North%20America/b=x%2Fy%3Dz"),
        ([None, ""], f"a={NULL}/b={EMPTY}"),
        ([NULL, EMPTY], f"a=%5F{NULL[1:]}/b=%5F{EMPTY[1:]}"),
        (["50%", ".."], "a=50%25/b=.."),
    ],
)
def test_keys_of_columns_are_folders_of_hive(texts: list[str | None], folder: str) -> None:
    key = column_key(["a", "b"][: len(texts)], texts)
    assert folder_of(key, NEWEST, by_columns=True) == folder
    assert folder in places_of(key)


@pytest.mark.parametrize(
    ("key", "first", "newest"),
    [
        ("2013-07.csv", "2013-07.csv", "2013-07.csv"),
        ("2013/North%20America.csv", "2013%2FNorth%2520America.csv", "2013%2FNorth%20America.csv"),
        ("day=2013-01", "day%3D2013-01", "day%3D2013-01"),
        ("", "_", "_"),
        (".hidden", "%2Ehidden", "%2Ehidden"),
        ("a b%2Fc", "a%20b%252Fc", "a%20b%252Fc"),
    ],
)
def test_other_keys_are_one_folder_that_is_encoded_once(key: str, first: str, newest: str) -> None:
    assert folder_of(key, FIRST, by_columns=False) == first
    assert folder_of(key, NEWEST, by_columns=False) == newest


def test_readers_find_the_values_of_the_columns(world: Keyed) -> None:
    for text in ("North America", "Größe", None):
        world.rows(column_key(["text"], [text]), text)
    names = pa.schema([("text", pa.string())])
    found = ds.dataset(world.target, partitioning=ds.partitioning(names, flavor="hive")).to_table(
        columns=["text"]
    )
    assert sorted(found["text"].to_pylist(), key=str) == ["Größe", None, "North America"]
    rows = duckdb.sql(
        f"SELECT text FROM read_parquet('{world.target}/*/*.parquet', hive_partitioning = true)"
    ).fetchall()
    assert {("Größe",), ("North America",)} <= set(rows)


def test_a_partition_is_replaced_and_removed_with_the_folders_that_held_it_alone(
    world: Keyed,
) -> None:
    one, two = column_key(["a", "b"], ["x", "1"]), column_key(["a", "b"], ["x", "2"])
    world.rows(one, "x")
    world.rows(two, "x")
    world.rows(one, "y", 2)
    assert world.folders() == ["a=x/b=1", "a=x/b=2"]
    world.remove(one, generation=3)
    assert world.folders() == ["a=x/b=2"]
    with pytest.raises(TaskFailure, match="has seen generation 3"):
        world.rows(one, "late", 2)
    world.remove(two, generation=3)
    assert [p.name for p in world.target.iterdir() if not p.name.startswith("_")] == []


def test_a_key_with_more_columns_or_fewer_takes_the_place_of_the_one_before(world: Keyed) -> None:
    short, long = column_key(["a"], ["x"]), [column_key(["a", "b"], ["x", b]) for b in "12"]
    world.rows(short, "x", 1)
    for key in long:
        world.rows(key, "x", 2)
    assert world.folders() == ["a=x/b=1", "a=x/b=2"]
    world.remove(short, generation=2)
    assert world.folders() == ["a=x/b=1", "a=x/b=2"]
    world.rows(short, "x", 3)
    assert world.folders() == ["a=x"]
    for key in long:
        with pytest.raises(TaskFailure, match="has seen generation 3"):
            world.rows(key, "late", 2)
        world.remove(key, generation=3)
    assert world.folders() == ["a=x"]


def test_foreign_files_among_the_folders_are_left_alone(world: Keyed) -> None:
    world.rows(column_key(["a", "b"], ["x", "1"]), "x")
    (world.target / "a=x" / "notes.txt").write_text("precious")
    with pytest.raises(TaskFailure, match="left alone"):
        world.rows(column_key(["a"], ["x"]), "x", 2)
    assert (world.target / "a=x" / "notes.txt").read_text() == "precious"


def test_a_target_that_began_in_the_first_layout_goes_on_in_it(world: Keyed) -> None:
    world.begin_in_the_first_layout()
    world.rows(NORTH, "North America")
    world.goes_on = True
    world.rows(NORTH, "north", 2)
    assert world.folders() == ["text%3DNorth%2520America"]


def test_a_target_whose_marker_was_removed_moves_to_the_newest_layout(world: Keyed) -> None:
    """As it is documented: remove the marker, then have everything written again."""
    gone = column_key(["text"], ["gone"])
    world.begin_in_the_first_layout()
    world.rows(NORTH, "North America", 1)
    world.rows(gone, "gone", 1)
    (world.target / MARKER).unlink()
    world.goes_on = True
    with pytest.raises(TaskFailure, match="all of it is written again"):
        world.rows(NORTH, "North America", 2)
    world.goes_on = False
    world.rows(NORTH, "North America", 2)
    world.remove(gone, generation=2)
    assert world.folders() == ["text=North%20America"]
    assert json.loads((world.target / MARKER).read_text()) == {"owner": "flow.out", "version": 2}


def test_a_folder_of_another_partition_is_not_taken(world: Keyed) -> None:
    world.by_columns = False
    world.rows("a=b", "x")
    marker = world.target / "a%3Db" / MARKER
    marker.write_text(
        json.dumps({**cast("Json", json.loads(marker.read_text())), "partition": "other"})
    )
    with pytest.raises(TaskFailure, match="is the folder of another partition: other"):
        world.rows("a=b", "x", 2)

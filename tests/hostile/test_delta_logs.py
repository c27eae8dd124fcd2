"""A table's log that no reader can open: the next publication makes the table anew, and says so."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from controlplane.core.model.projections import TableContent
from controlplane.lake.publisher import DeltaPublisher
from tests.unit.lake.tables import READERS, Lake, Rows, struct

A = struct(a="long")
FEW, MANY = 5, 23  # versions; a checkpoint is made after 20
Damage = Callable[[Path], object]


class Story:
    """Two tables that are published version by version, one of them long enough for a checkpoint.
    Each test gets a log as it was then."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.told = folder, list[str]()
        self._tables: dict[str, tuple[Lake, TableContent]] = {}
        self._publisher = DeltaPublisher((folder / "lake").as_uri())
        for name, versions in (("few", FEW), ("many", MANY)):
            lake = Lake(folder / "lake", f"default/flow/{name}")
            every = [lake.fragment(A, [{"a": n}]) for n in range(versions + 1)]
            for number in range(1, versions + 1):
                self._publisher.publish(lake.table(A, *every[:number], generation=number))
            shutil.copytree(Path(lake.location) / "_delta_log", folder / name)
            self._tables[name] = lake, lake.table(A, *every, generation=versions + 1)

    def fresh(self, name: str) -> tuple[Lake, TableContent]:
        lake, table = self._tables[name]
        log = Path(lake.location) / "_delta_log"
        shutil.rmtree(log, ignore_errors=True)
        shutil.copytree(self.folder / name, log)
        self.told.clear()
        return lake, table

    def publish(self, table: TableContent) -> int:
        return self._publisher.publish(table, self.told.append)

    def close(self) -> None:
        self._publisher.close()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    story = Story(tmp_path_factory.mktemp("logs"))
    yield story
    story.close()


def entry(log: Path, version: int) -> Path:
    return log / f"{version:020}.json"


def checkpoint(log: Path) -> Path:
    (found,) = log.glob("*.checkpoint.parquet")
    return found


def without(*versions: int) -> Damage:
    return lambda log: any(map(Path.unlink, (entry(log, v) for v in versions)))


def written(version: int, change: Callable[[bytes], bytes]) -> Damage:
    return lambda log: entry(log, version).write_bytes(change(entry(log, version).read_bytes()))


def _no_checkpoint(log: Path) -> None:
    checkpoint(log).unlink()
    entry(log, 0).unlink()


def _flipped_checkpoint(log: Path) -> None:
    data = bytearray(checkpoint(log).read_bytes())
    data[len(data) // 2] ^= 0xFF
    checkpoint(log).write_bytes(data)


def _folder_for_entry(log: Path) -> None:
    entry(log, 3).unlink()
    entry(log, 3).mkdir()


BROKEN: dict[str, tuple[str, Damage]] = {
    "first entry gone": ("few", without(0)),
    "first entries gone": ("few", without(0, 1, 2)),
    "gap": ("few", without(2)),
    "half a line at the end": ("few", written(FEW - 1, lambda data: data[:-30])),
    "half a line at the start": ("few", written(0, lambda data: data[:100])),
    "zeros": ("few", written(2, lambda data: bytes(len(data)))),
    "a list": ("few", written(2, lambda _: b"[1, 2]\n")),
    "garbage in an action": ("few", written(2, lambda _: b'{"add": {"path": 7}}\n')),
    "an entry far ahead": (
        "few",
        lambda log: entry(log, 99).write_bytes(entry(log, 4).read_bytes()),
    ),
    "a hint that leads nowhere": (
        "few",
        lambda log: (log / "_last_checkpoint").write_bytes(b'{"version": 77, "size": 3}'),
    ),
    "a folder in place of an entry": ("few", _folder_for_entry),
    "checkpoint and first entry gone": ("many", _no_checkpoint),
    "checkpoint cut short": ("many", lambda log: checkpoint(log).write_bytes(b"PAR1")),
    "checkpoint with another byte": ("many", _flipped_checkpoint),
}
READABLE: dict[str, tuple[str, Damage]] = {
    "no entry at the end": ("few", written(FEW - 1, lambda _: b"")),
    "no entry in the middle": ("few", written(2, lambda _: b"")),
    "an action that is not known": ("few", written(2, lambda _: b'{"x": {}}\n')),
    "a hint that is none": ("many", lambda log: (log / "_last_checkpoint").write_bytes(b"garbage")),
    "entries before a checkpoint gone": ("many", without(*range(10))),
}


def rows(table: TableContent) -> Rows:
    return sorted(({"a": n} for n in range(len(table.fragments))), key=repr)


@pytest.mark.parametrize("what", BROKEN)
def test_a_log_that_cannot_be_opened_is_made_anew(story: Story, what: str) -> None:
    name, damage = BROKEN[what]
    lake, table = story.fresh(name)
    log = Path(lake.location) / "_delta_log"
    damage(log)
    before = {path.name: path.read_bytes() for path in log.iterdir() if path.is_file()}
    newest = max(int(path.name[:20]) for path in log.iterdir() if path.name[0].isdigit())
    version = story.publish(table)
    assert version == newest + 1
    for read in READERS:
        assert read(lake.location) == rows(table), read.__name__
    (notice,) = story.told
    assert f"{table.path}/_delta_log: " in notice
    assert f"made anew as version {version}" in notice
    kept = {
        path.name: path.read_bytes()
        for path in log.iterdir()
        if path.is_file() and path.name in before
    }
    assert kept.items() >= {(n, data) for n, data in before.items() if n != "_last_checkpoint"}
    assert story.publish(replace(table, generation=99)) == version
    assert len(story.told) == 1


@pytest.mark.parametrize("what", READABLE)
def test_a_log_that_can_be_opened_goes_on(story: Story, what: str) -> None:
    name, damage = READABLE[what]
    lake, table = story.fresh(name)
    damage(Path(lake.location) / "_delta_log")
    story.publish(table)
    assert story.told == []
    for read in READERS:
        assert read(lake.location) == rows(table), read.__name__


def test_who_follows_the_log_loses_what_went_and_keeps_the_rest(story: Story) -> None:
    """A reader that has an older version takes in what the new entry adds, and removes what it
    removes."""
    lake, table = story.fresh("few")
    reader = lake.open()
    entry(Path(lake.location) / "_delta_log", 0).unlink()
    story.publish(replace(table, fragments=table.fragments[2:]))
    reader.update_incremental()
    assert sorted(row["a"] for row in reader.to_pyarrow_table().to_pylist()) == list(
        range(2, FEW + 1)
    )
    assert reader.version() == FEW


def test_tables_are_widened_and_swapped_after_they_were_made_anew(story: Story) -> None:
    lake, table = story.fresh("few")
    table_id = str(lake.open().metadata().id)
    without(2)(Path(lake.location) / "_delta_log")
    story.publish(table)
    assert str(DeltaTable(lake.location).metadata().id) == table_id
    wide = struct(a="long", b="string")
    story.publish(replace(table, schema=wide, fragments=table.fragments[3:], generation=20))
    for read in READERS:
        assert read(lake.location) == [{"a": n, "b": None} for n in range(3, FEW + 1)], (
            read.__name__
        )


def test_a_log_that_cannot_be_made_anew_is_named(story: Story) -> None:
    lake, table = story.fresh("few")
    log = Path(lake.location) / "_delta_log"
    last = log / f"{2**63 - 1:020}.json"
    last.write_text(json.dumps({"txn": {"appId": "x", "version": 1}}))
    with pytest.raises(OSError, match=rf"{last.name}: remove that file"):
        story.publish(table)
    last.unlink()
    story.publish(table)


def test_a_file_in_place_of_the_log_is_named(story: Story) -> None:
    lake, table = story.fresh("few")
    log = Path(lake.location) / "_delta_log"
    shutil.rmtree(log)
    log.write_text("no folder")
    with pytest.raises(OSError, match=r"(?s)flow.daily: .*_delta_log"):
        story.publish(table)
    log.unlink()
    story.publish(table)

"""The change data feed of a Delta table as partitions: where it begins, how versions are ranges,
and what is lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet
import pytest

from dataplane.connectors.delta import change_listing
from dataplane.connectors.delta.change_listing import check, partitions
from dataplane.contract.jobs import ConnectJob
from dataplane.contract.source_objects import ListedPartition
from dataplane.task_failures import TaskFailure
from tests.unit.delta.test_log import METADATA, PROTOCOL, add, commit, remove
from tests.unit.listing.location import list_job

NONE: dict[str, Any] = {"key": None, "objects": []}


def metadata(*columns: str, on: bool = True, id: str = "t-1") -> Mapping[str, Any]:
    fields = [{"name": c, "type": "long", "nullable": True, "metadata": {}} for c in columns]
    schema = json.dumps({"type": "struct", "fields": fields})
    configuration = {"delta.enableChangeDataFeed": str(on).lower()}
    return {
        "metaData": {**METADATA, "id": id, "schemaString": schema, "configuration": configuration}
    }


def checkpoint(root: Path, version: int, *files: Mapping[str, Any]) -> None:
    actions = [{"protocol": PROTOCOL}, metadata("x"), *files]
    name = f"{version:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    text = "".join(f"{json.dumps(action)}\n" for action in actions)
    (root / "_delta_log" / name).write_text(text)


class Table:
    """A log, with a file for each version that adds a row, and what is listed of it."""

    def __init__(self, root: Path, *, on: bool = True, id: str = "t-1") -> None:
        self.root, self.version = root, -1
        self.listed: list[ListedPartition] = []
        self.commit({"protocol": PROTOCOL}, metadata("x", on=on, id=id))

    def commit(self, *actions: Mapping[str, Any]) -> None:
        self.version += 1
        commit(self.root, self.version, *actions)

    def insert(self, *others: Mapping[str, Any]) -> str:
        name = f"{self.version + 1}.parquet"
        pyarrow.parquet.write_table(pa.table({"x": [1]}), self.root / name)
        self.commit(*others, add(name))
        return name

    def rewrite(self, version: int) -> None:
        """Another commit of this version, with the same actions."""
        with (self.root / "_delta_log" / f"{version:020}.json").open("a") as log:
            log.write("\n")

    def look(self, *, accept: bool = False, **settings: Any) -> list[str]:
        """Names of the objects of new partitions."""
        last = self.listed[-1] if self.listed else NONE
        job = list_job(
            self.root,
            connector="delta",
            settings={"changes": True, **settings},
            known={"key": last["key"], "objects": last["objects"]},
            accept_deletes=accept,
        )
        new = list(partitions(job))
        self.listed += new
        return [" ".join(o["name"] for o in partition["objects"]) for partition in new]

    def refused(self, **settings: Any) -> str:
        with pytest.raises(TaskFailure) as failure:
            self.look(**settings)
        assert failure.value.kind == "user"
        return failure.value.condition


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_each_listing_adds_the_versions_since_the_one_before(table: Table) -> None:
    assert table.look() == []
    table.insert()
    table.insert()
    assert table.look() == ["1-2"], "version 0 has no rows"
    assert table.look() == []
    table.insert()
    assert table.look() == ["3-3"]
    assert [p["key"] for p in table.listed] == ["000000000001", "000000000002"]


def test_the_first_version_is_its_files(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_listing, "MOST_FILES", 2)
    for _ in range(4):
        table.insert()
    assert table.look(start=3) == ["1.parquet 2.parquet", "3.parquet", "4-4"]
    source = table.listed[0]["objects"][0]
    assert source["columns"] == ["x", "_change_type", "_commit_version", "_commit_timestamp"]
    assert source["detail"]["end"] == 3
    assert table.look() == []


def test_a_range_ends_where_columns_change_and_has_a_bound(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_listing, "MOST_VERSIONS", 3)
    table.insert()
    table.insert(metadata("x", "y"))
    for _ in range(4):
        table.insert()
    assert table.look() == ["1-1", "2-4", "5-6"]
    assert [len(p["objects"][0]["columns"] or ()) for p in table.listed] == [4, 5, 5]
    table.listed.clear()
    monkeypatch.setattr(change_listing, "MOST_BYTES", 2)
    assert table.look() == ["1-1", "2-3", "4-5", "6-6"], "each file is a byte"
    assert [p["objects"][0]["size"] for p in table.listed] == [1, 2, 2, 1]
    table.listed.clear()
    monkeypatch.setattr(change_listing, "MOST_BYTES", 0)
    assert table.look() == [f"{n}-{n}" for n in range(1, 7)], "a version is not divided"


def test_it_begins_behind_files_that_are_gone(table: Table) -> None:
    first = table.insert()
    table.commit({"cdc": {"path": "cdc-2.parquet", "partitionValues": {}, "size": 1}})
    (table.root / "cdc-2.parquet").touch()
    table.commit(remove(first))
    table.insert()
    assert table.look() == ["1-4"]
    table.listed.clear()
    (table.root / "cdc-2.parquet").unlink()
    assert table.look() == ["1.parquet", "3-4"]
    table.listed.clear()
    (table.root / first).unlink()
    assert table.look() == ["4-4"], "version 3 has no rows"


def test_a_table_without_the_feed_is_an_error(tmp_path: Path) -> None:
    table = Table(tmp_path, on=False)
    table.insert()
    assert table.refused() == "change-feed-off"
    job = {"connector": "delta", "place": str(tmp_path), "options": {}, "writes": False}
    with pytest.raises(TaskFailure) as failure:
        check(cast("ConnectJob", {**job, "settings": {"changes": True}}))
    assert failure.value.condition == "change-feed-off"
    check(cast("ConnectJob", {**job, "settings": {}}))
    table.insert(metadata("x"))
    table.insert()
    assert table.look() == ["1.parquet 2.parquet", "3-3"]
    table.insert(metadata("x", on=False))
    table.insert(metadata("x"))
    table.insert()
    assert table.refused() == "change-feed-off"
    assert table.look(accept=True)[-1] == "6-6"


def test_versions_that_are_gone_are_an_error(table: Table) -> None:
    table.insert()
    table.look()
    for _ in range(3):
        table.insert()
    (table.root / "_delta_log" / f"{2:020}.json").unlink()
    checkpoint(table.root, 3, add("1.parquet"), add("3.parquet"))
    assert table.refused(start=1) == "versions-expired"
    assert table.look(accept=True, start=1) == ["1.parquet 3.parquet", "4-4"]
    table.listed.clear()
    assert table.refused(start=1) == "versions-expired", "the log begins at 3"
    assert table.refused(start=99) == "version-missing"


def test_a_table_that_was_made_anew_is_an_error(table: Table) -> None:
    table.insert()
    table.look()
    other = Table(table.root, id="t-2")
    other.insert()
    assert table.refused() == "table-recreated"
    assert table.look(accept=True) == ["1-1"]


def test_another_commit_of_the_last_version_is_an_error(table: Table) -> None:
    table.insert()
    table.insert()
    table.look(start=1)
    assert [p["objects"][0]["detail"]["end"] for p in table.listed] == [1, 2]
    table.rewrite(1)
    assert table.look() == [], "the last one counts"
    table.rewrite(2)
    assert table.refused() == "table-recreated"
    before = table.listed[-1]
    assert table.look(accept=True) == ["1-2"]
    table.listed.clear()
    assert table.look(start=1) == ["1.parquet", "2-2"]
    assert table.listed[-1]["source"] != before["source"], "these are other rows"
    table.insert()
    (table.root / "_delta_log" / f"{2:020}.json").unlink()
    checkpoint(table.root, 2, add("1.parquet"), add("2.parquet"))
    assert table.look() == ["3-3"], "the log no longer has the commit"


def test_a_file_elsewhere_is_refused(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADGATE_SOURCES", str(table.root))
    table.insert()
    table.commit({"cdc": {"path": "file:///etc/hostname", "partitionValues": {}, "size": 1}})
    assert table.refused() == "place-refused"

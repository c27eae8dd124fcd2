"""The files of a Delta table as source objects: which of them count as changed, and which columns
they have."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake
from pyspark.sql import SparkSession

from dataplane.connectors.delta.delta_listing import PHYSICAL, check, partitions
from dataplane.connectors.delta.delta_reader import DeltaReading
from dataplane.connectors.delta.log import head
from dataplane.contract.source_objects import NESTED, ListedPartition
from dataplane.task_failures import TaskFailure
from tests.unit.delta.test_log import METADATA, PROTOCOL, VECTOR, add, commit, remove
from tests.unit.listing.location import list_job

NAMES = ("col-1", "col-2")


def listing(root: Path, **settings: Any) -> dict[str, ListedPartition]:
    found = list(partitions(list_job(root, connector="delta", settings=settings)))
    keys = [p["key"] for p in found]
    assert keys == sorted(keys, key=str.encode)
    return dict(zip(keys, found, strict=True))


def changed(before: dict[str, ListedPartition], after: dict[str, ListedPartition]) -> int:
    return sum(p["source"] != before[k]["source"] for k, p in after.items() if k in before)


def mapped(*columns: str) -> dict[str, Any]:
    """Metadata of a table whose columns have other names in files."""
    fields = [
        {
            "name": c,
            "type": "long",
            "nullable": True,
            "metadata": {"delta.columnMapping.physicalName": NAMES[i]},
        }
        for i, c in enumerate(columns)
    ]
    mode = {"delta.columnMapping.mode": "name"}
    schema = json.dumps({"type": "struct", "fields": fields})
    return {"metaData": {**METADATA, "schemaString": schema, "configuration": mode}}


def sized(root: Path, name: str, vector: Any = None) -> dict[str, Any]:
    found = add(name, vector)
    return {"add": {**found["add"], "size": (root / name).stat().st_size}}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two files with one column, under a name of its own."""
    for name in ("a.parquet", "b.parquet"):
        pyarrow.parquet.write_table(pa.table({"col-1": [1]}), tmp_path / name)
    commit(
        tmp_path,
        0,
        {"protocol": PROTOCOL},
        mapped("x"),
        sized(tmp_path, "a.parquet"),
        sized(tmp_path, "b.parquet"),
    )
    return tmp_path


def test_each_file_is_a_partition(tmp_path: Path) -> None:
    for k in ("a b", "ü/%"):
        write_deltalake(
            str(tmp_path), pa.table({"k": [k], "n": [1]}), mode="append", partition_by=["k"]
        )
    found = listing(tmp_path)
    paths = {str(Path(tmp_path, *p["objects"][0]["name"].split("/"))) for p in found.values()}
    assert paths == set(DeltaTable(str(tmp_path)).file_uris())
    assert all(p["objects"][0]["columns"] == ["k", "n"] for p in found.values())
    assert listing(tmp_path) == found
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.appendOnly": "true"})
    assert changed(found, listing(tmp_path)) == 0, "a version without new files"
    assert len(listing(tmp_path, version=0)) == 1


def test_files_that_are_linked_are_one_partition(tmp_path: Path) -> None:
    for n in (1, 2):
        write_deltalake(str(tmp_path), pa.table({"n": [n]}), mode="append")
    [partition] = listing(tmp_path, link=True).values()
    assert [source["columns"] for source in partition["objects"]] == [["n"], ["n"]]


def test_files_whose_rows_are_not_those_of_the_table_are_not_linked(
    table: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(TaskFailure, match="column mapping"):
        listing(table, link=True)
    by_day = tmp_path_factory.mktemp("by_day")
    write_deltalake(str(by_day), pa.table({"k": ["a"], "n": [1]}), partition_by=["k"])
    with pytest.raises(TaskFailure, match="partition columns") as refused:
        listing(by_day, link=True)
    assert refused.value.condition == "link-refused"
    deleted = tmp_path_factory.mktemp("deleted")
    pyarrow.parquet.write_table(pa.table({"x": [1]}), deleted / "a.parquet")
    actions = {"protocol": PROTOCOL}, {"metaData": METADATA}, sized(deleted, "a.parquet", VECTOR)
    commit(deleted, 0, *actions)
    with pytest.raises(TaskFailure, match="deletion vectors"):
        listing(deleted, link=True)
    assert len(listing(deleted)) == 1, "it is read without links"


def test_linked_files_of_another_table_keep_to_the_rules_of_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a shallow clone has them, and with each sign that is escaped in a log."""
    original, clone = tmp_path / "original", tmp_path / "clone"
    original.mkdir()
    file = original / "a b%20#?.parquet"
    pyarrow.parquet.write_table(pa.table({"x": [1]}), file)
    commit(clone, 0, {"protocol": PROTOCOL}, {"metaData": METADATA}, add(file.as_uri()))
    [partition] = listing(clone, link=True).values()
    assert [source["uri"] for source in partition["objects"]] == [file.as_uri()]
    monkeypatch.setenv("HEADGATE_SOURCES", str(clone))
    with pytest.raises(TaskFailure) as refused:
        listing(clone, link=True)
    assert refused.value.condition == "place-refused"


def test_a_deletion_vector_changes_its_file_alone(table: Path) -> None:
    before = listing(table)
    commit(table, 1, remove("a.parquet"), sized(table, "a.parquet", VECTOR))
    after = listing(table)
    assert [k for k in after if after[k]["source"] != before[k]["source"]] == ["a.parquet"]


def test_a_new_column_changes_no_file_that_lacks_it(table: Path) -> None:
    before = listing(table)
    commit(table, 1, mapped("x", "y"))
    assert changed(before, listing(table)) == 0
    pyarrow.parquet.write_table(pa.table({"col-1": [1], "col-2": [2]}), table / "c.parquet")
    commit(table, 2, add("c.parquet"))
    after = listing(table)
    assert changed(before, after) == 0
    assert [p["objects"][0]["columns"] for p in after.values()] == [["x"], ["x"], ["x", "y"]]


def test_names_that_were_swapped_change_the_files_that_have_the_columns(table: Path) -> None:
    pyarrow.parquet.write_table(pa.table({"col-1": [1], "col-2": [2]}), table / "c.parquet")
    commit(table, 1, mapped("x", "y"), add("c.parquet"))
    before = listing(table)
    commit(table, 2, mapped("y", "x"))
    after = listing(table)
    assert changed(before, after) == 3
    assert after["a.parquet"]["objects"][0]["columns"] == ["y"]


def test_a_field_of_values_of_a_map_has_another_name(table: Path) -> None:
    def metadata(name: str) -> dict[str, Any]:
        field = {"name": name, "type": "long", "nullable": True, "metadata": {PHYSICAL: "col-2"}}
        value = {
            "type": "array",
            "elementType": {"type": "struct", "fields": [field]},
            "containsNull": True,
        }
        kind = {"type": "map", "keyType": "string", "valueType": value, "valueContainsNull": True}
        column = {"name": "x", "type": kind, "nullable": True, "metadata": {PHYSICAL: "col-1"}}
        schema = json.dumps({"type": "struct", "fields": [column]})
        return {"metaData": {**mapped("x")["metaData"], "schemaString": schema}}

    commit(table, 1, metadata("a"))
    before = listing(table)
    commit(table, 2, metadata("b"))
    assert changed(before, listing(table)) == 2


def test_a_table_that_is_made_anew_of_files_of_the_same_names(tmp_path: Path) -> None:
    found = []
    for n in (1, 2):
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        pyarrow.parquet.write_table(pa.table({"n": [n]}), tmp_path / "rows.parquet")
        os.utime(tmp_path / "rows.parquet", (n, n))
        convert_to_deltalake(str(tmp_path))
        found.append(listing(tmp_path))
    first, second = found
    assert first.keys() == second.keys()
    assert changed(first, second) == 1


def test_fields_within_columns_are_told(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"s": [{"a": 1, "l": [{"b": 2}]}]}))
    (found,) = listing(tmp_path).values()
    inner = ["s", f"s{NESTED}a", f"s{NESTED}l", f"s{NESTED}l{NESTED}b"]
    assert found["objects"][0]["columns"] == inner


def test_a_file_that_is_missing_fails_the_listing(table: Path) -> None:
    (table / "b.parquet").unlink()
    with pytest.raises(TaskFailure, match="is not there"):
        listing(table)
    (table / "b.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(TaskFailure, match="not a readable Parquet file"):
        listing(table)


def test_what_is_read_is_what_was_listed(table: Path) -> None:
    (a,), (b,) = (p["objects"] for p in listing(table).values())
    assert reading(table).changed([a, b]) == set()
    commit(table, 1, remove("a.parquet"), mapped("x", "y"))
    assert reading(table).changed([a, b]) == set(), (
        "a file that the table gave up is still the one that was listed"
    )
    commit(table, 2, mapped("z", "y"))
    assert reading(table).changed([a, b]) == {"a.parquet", "b.parquet"}, (
        "its column has another name now"
    )
    commit(table, 3, mapped("x", "y"))
    (table / "b.parquet").unlink()
    assert reading(table).changed([a, b]) == {"b.parquet"}
    commit(table, 4, remove("b.parquet"), sized(table, "a.parquet", VECTOR))
    (vectored,) = listing(table)["a.parquet"]["objects"]
    assert reading(table).changed([vectored]) == {"a.parquet"}, "its deletion vector is not there"


def test_columns_of_files_and_of_a_table_without_any(table: Path) -> None:
    commit(table, 1, mapped("x", "y"))
    objects = [o for p in listing(table).values() for o in p["objects"]]
    assert [f["name"] for f in reading(table).schema(objects)["fields"]] == ["x"]
    assert [f["name"] for f in reading(table).schema([])["fields"]] == ["x", "y"]


def reading(root: Path) -> DeltaReading:
    """Without Spark, which only rows need."""
    return DeltaReading(cast("SparkSession", None), root, head(root), root)


def test_what_is_in_the_way_of_reading_or_writing_a_table(table: Path) -> None:
    def tried(place: Path, *, writes: bool) -> str:
        try:
            check(
                {
                    "connector": "delta",
                    "place": str(place),
                    "options": {},
                    "writes": writes,
                    "settings": {},
                }
            )
        except TaskFailure as e:
            return e.condition
        return "fine"

    assert [tried(table, writes=writes) for writes in (False, True)] == ["fine", "target-occupied"]
    assert [tried(table / "none", writes=writes) for writes in (False, True)] == [
        "path-not-found",
        "fine",
    ]

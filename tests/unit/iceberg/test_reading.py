"""Tables of Iceberg as sources: which files count as changed, which rows they have, and what is
refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql import SparkSession

from dataplane.connectors.iceberg import table_files
from dataplane.connectors.iceberg.iceberg_listing import check, partitions
from dataplane.connectors.iceberg.iceberg_reader import IcebergReading
from dataplane.connectors.iceberg.open_table import open_table
from dataplane.task_failures import TaskFailure
from tests.iceberg_tables import (
    NAME,
    IcebergTables,
    commit_deletes,
    data_paths,
    delete_rows,
    rows_of,
    sources,
)
from tests.unit.iceberg.reading import rows_of_job
from tests.unit.listing.location import list_job


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[IcebergTables]:
    opened = IcebergTables(tmp_path)
    yield opened
    opened.close()


def reading(tables: IcebergTables, **settings: Any) -> IcebergReading:
    """As a driver has it; its Spark is not asked for."""
    table = open_table(tables.job(**settings), f"iceberg:{NAME}")
    return IcebergReading(cast("SparkSession", None), table)


def rows_read(tables: IcebergTables, **settings: Any) -> list[dict[str, Any]]:
    return rows_of_job(tables.job(**settings))


def agrees(tables: IcebergTables, table: Table) -> bool:
    """Whether all rows are those that pyiceberg itself reads."""
    expected = table.refresh().scan().to_arrow().to_pylist()
    return sorted(map(str, rows_read(tables))) == sorted(map(str, expected))


# --- changes ------------------------------------------------------------------------------------


def test_a_late_file_is_one_partition_more_and_a_withdrawn_one_is_gone(
    tables: IcebergTables,
) -> None:
    table = tables.create(rows_of(1, 2))
    first = tables.listed()
    assert [len(p["objects"]) for p in first.values()] == [1]
    table.append(rows_of(3))
    second = tables.listed()
    assert sources(first).items() < sources(second).items()
    assert len(second) == 2
    table.delete("id = 3")
    assert tables.listed() == first
    table.overwrite(rows_of(4))
    assert len(tables.listed()) == 1
    assert not sources(first).keys() & sources(tables.listed()).keys()
    assert agrees(tables, table)


def test_a_table_without_rows_has_columns(tables: IcebergTables) -> None:
    tables.catalog.create_table(NAME, rows_of(1).schema)
    assert tables.listed() == {}
    assert [f["name"] for f in reading(tables).schema([])["fields"]] == ["id", "name"]


def test_an_added_a_moved_and_a_widened_column_change_no_file(tables: IcebergTables) -> None:
    table = tables.create(pa.table({"id": pa.array([1], pa.int32()), "name": ["n1"]}))
    before = sources(tables.listed())
    with table.update_schema() as update:
        update.add_column("more", StringType())
        update.move_first("name")
        update.update_column("id", LongType())
    assert sources(tables.listed()) == before
    table.append(pa.table({"name": ["n2"], "id": [2**40], "more": ["m"]}))
    after = tables.listed()
    own = [after[key]["objects"][0]["columns"] or [] for key in after]
    assert sorted(own, key=len) == [["name", "id"], ["name", "id", "more"]]
    assert agrees(tables, table)


def test_columns_are_found_by_id_when_names_are_exchanged(tables: IcebergTables) -> None:
    table = tables.create(rows_of(a=["x"], b=["y"], st=[{"p": "z"}]))
    before = tables.listed()
    with table.update_schema() as update:
        update.rename_column("a", "c")
        update.rename_column("b", "a")
    with table.update_schema() as update:
        update.rename_column("c", "b")
    after = tables.listed()
    assert sources(before) != sources(after)
    assert rows_read(tables) == [{"b": "x", "a": "y", "st": {"p": "z"}}]
    with table.update_schema() as update:
        update.rename_column("st.p", "q")
    assert sources(tables.listed()) != sources(after)
    assert agrees(tables, table)


def test_a_column_that_comes_back_is_another_one(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    with table.update_schema() as update:
        update.delete_column("name")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    (partition,) = tables.listed().values()
    assert partition["objects"][0]["columns"] == ["id"]
    assert rows_read(tables) == [{"id": 1, "name": None}]


def test_files_without_ids_go_by_the_name_mapping_and_the_partition(
    tables: IcebergTables,
) -> None:
    """As files of Hive that were added: their folders alone hold the column of the partition."""
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
    table = tables.catalog.create_table(NAME, schema, partition_spec=spec)
    table.append(rows_of(1, 2))
    mapping = table.schema().name_mapping.model_dump_json()
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": mapping})
    for path in data_paths(table):
        rewrite_without(path.removeprefix("file://"), "name")
    assert agrees(tables, table)
    (partition, *_) = tables.listed().values()
    assert partition["objects"][0]["columns"] == ["id", "name"]


def rewrite_without(path: str, column: str) -> None:
    """The file without a column and without field ids, with as many bytes as before."""
    size, padding = Path(path).stat().st_size, 200
    rows = pa.table(pa.parquet.read_table(path).drop_columns([column]).to_pydict())
    for _ in range(2):
        with pa.parquet.ParquetWriter(path, rows.schema, store_schema=False) as writer:
            writer.write_table(rows)
            writer.add_key_value_metadata({"padding": "x" * padding})
        padding += size - Path(path).stat().st_size
    assert Path(path).stat().st_size == size


# --- deletes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["PARQUET", "PUFFIN"])
def test_deleted_positions_are_no_rows_and_change_the_file(
    tables: IcebergTables, kind: str
) -> None:
    table = tables.create(rows_of(1, 2, 3))
    before = tables.listed()
    (path,) = data_paths(table)
    delete_rows(table, {path: [0, 2]}, kind)
    after = tables.listed()
    assert before.keys() == after.keys()
    assert sources(before) != sources(after)
    assert [row["id"] for row in rows_read(tables)] == [2]
    assert agrees(tables, table)


def test_deletes_by_equality_are_refused_by_name(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    path = f"{table.location()}/data/eq.parquet"
    commit_deletes(table, path, DataFileContent.EQUALITY_DELETES, "PARQUET")
    with pytest.raises(TaskFailure, match=r"eq\.parquet deletes rows by equality.*compact"):
        tables.listed()


def test_other_formats_are_refused_by_name(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    commit_deletes(table, f"{table.location()}/x.avro", DataFileContent.POSITION_DELETES, "AVRO")
    with pytest.raises(TaskFailure, match=r"x\.avro is a file of AVRO"):
        tables.listed()


# --- addresses ----------------------------------------------------------------------------------


def test_snapshots_branches_and_tags_are_read(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "v1").commit()
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    with table.update_schema() as update:
        update.rename_column("name", "label")
    table.append(rows_of(id=[2], label=["n2"]))
    table.append(rows_of(id=[3], label=["n3"]), branch="audit")
    old, new = {"id": 1, "name": "n1"}, {"id": 1, "label": "n1"}
    assert rows_read(tables, snapshot=first.snapshot_id) == [old]
    assert rows_read(tables, ref="v1") == [old]
    assert sorted(map(str, rows_read(tables, ref="audit"))) == [
        str(new),
        str({"id": 3, "label": "n3"}),
    ]
    for missing in ({"snapshot": 7}, {"ref": "v2"}):
        with pytest.raises(TaskFailure, match="correct `snapshot` or `ref`") as raised:
            tables.listed(**missing)
        assert raised.value.condition == "version-missing"


def test_a_path_is_a_file_of_metadata_or_a_folder_with_a_hint(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    folder = table.location().removeprefix("file://")

    def by(path: str) -> list[str]:
        return [p["key"] for p in partitions(list_job(path, connector="iceberg", settings={}))]

    assert by(table.metadata_location) == list(tables.listed())
    with pytest.raises(TaskFailure, match=r"version-hint\.text.*give a catalogue") as raised:
        by(folder)
    assert raised.value.condition == "path-not-found"
    hint = table.metadata_location.rpartition("/")[2]
    (Path(folder) / "metadata" / "version-hint.text").write_text(hint)
    assert by(folder) == list(tables.listed())


@pytest.mark.parametrize(
    ("settings", "condition"),
    [
        ({"table": "shop.none"}, "path-not-found"),
        ({"catalog.uri": "sqlite:////nowhere/catalog.db"}, "unreadable"),
        ({"catalog.uri": "sqlite:////proc/catalog.db"}, "place-refused"),
        ({"catalog.uri": "http://169.254.169.254/iceberg"}, "place-refused"),
        ({"catalog.uri": "postgresql://169.254.169.254/db"}, "place-refused"),
        ({"catalog.uri": "postgresql://host/db?service=x"}, "bad-url"),
        ({"storage.endpoint": "http://169.254.169.254"}, "place-refused"),
    ],
)
def test_a_catalogue_that_is_not_read(
    tables: IcebergTables, settings: dict[str, str], condition: str
) -> None:
    tables.create(rows_of(1))
    job: Any = {**tables.job(**settings), "place": "", "writes": False}
    with pytest.raises(TaskFailure) as raised:
        check(job)
    assert raised.value.condition == condition


# --- what may go wrong --------------------------------------------------------------------------


def test_a_file_that_went_or_was_renamed_is_not_as_listed(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    objects = [p["objects"][0] for p in tables.listed().values()]
    names = frozenset(o["name"] for o in objects)
    assert reading(tables).changed(objects) == frozenset()
    with table.update_schema() as update:
        update.rename_column("name", "label")
    assert reading(tables).changed(objects) == names
    objects = [p["objects"][0] for p in tables.listed().values()]
    Path(data_paths(table)[0].removeprefix("file://")).unlink()
    assert reading(tables).changed(objects) == names


def test_a_missing_manifest_is_a_condition_that_passes(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    snapshot = table.current_snapshot()
    assert snapshot is not None
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    with pytest.raises(TaskFailure, match="expired") as raised:
        tables.listed()
    assert (raised.value.condition, raised.value.kind) == ("unreadable", "infrastructure")


def hostile(tables: IcebergTables, **changes: Any) -> Any:
    """A job for the table's metadata with these changes."""
    table = tables.create(rows_of(1))
    path = Path(table.metadata_location.removeprefix("file://"))
    other = path.with_name("00009-x.metadata.json")
    other.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return list_job(str(other), connector="iceberg", settings={})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"current-schema-id": 99}, "cannot be read"),
        ({"schemas": "none"}, "cannot be read"),
        ({"format-version": 99}, "cannot be read"),
    ],
)
def test_broken_metadata_is_a_clear_error(
    tables: IcebergTables, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(TaskFailure, match=words):
        list(partitions(hostile(tables, **changes)))


def test_a_type_that_spark_cannot_hold_is_named(tables: IcebergTables) -> None:
    fields = [{"id": n, "name": f"c{n}", "required": False, "type": "long"} for n in (1, 2)]
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{**fields[0], "type": "timestamp_ns"}, fields[1]],
    }
    job = hostile(tables, **{"format-version": 3, "next-row-id": 0, "schemas": [schema]})
    reader = IcebergReading(cast("SparkSession", None), open_table(job, job["location"]))
    with pytest.raises(TaskFailure, match="column c1 has the type timestamp_ns"):
        reader.schema([])
    assert [field["name"] for field in reader.table.fields] == ["c2"]


def test_metadata_leads_to_no_refused_place(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    for path in ("/proc/self/environ", "file:///proc/1/x.parquet", "https://host/x.parquet"):
        commit_deletes(table, path, DataFileContent.POSITION_DELETES, "PARQUET")
        with pytest.raises(TaskFailure) as raised:
            tables.listed()
        assert raised.value.condition in ("place-refused", "not-supported")


def test_files_of_another_size_and_of_another_format_are_named(tables: IcebergTables) -> None:
    table = tables.create(rows_of(1))
    path = Path(data_paths(table)[0].removeprefix("file://"))
    content = path.read_bytes()
    path.write_bytes(content + b"more")
    with pytest.raises(TaskFailure, match=r"has \d+ bytes, and \d+ in the table's manifest"):
        tables.listed()
    path.write_bytes(bytes(len(content)))
    with pytest.raises(TaskFailure) as raised:
        tables.listed()
    assert raised.value.condition == "MALFORMED_FILE"


def test_metadata_beyond_the_bound_is_not_read(tables: IcebergTables) -> None:
    path = tables.folder / "v1.metadata.json"
    with path.open("wb") as file:
        file.truncate(table_files.TABLE_BYTES + 1)
    with pytest.raises(TaskFailure) as raised:
        list(partitions(list_job(str(path), connector="iceberg", settings={})))
    assert raised.value.condition == "listing-too-large"

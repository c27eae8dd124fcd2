"""What the log of a Delta table says, next to what a library reads out of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import DeltaTable, write_deltalake

from dataplane.connectors.delta.delta_reader import vector_file
from dataplane.connectors.delta.log import head, local_place, snapshot, vector_id
from dataplane.contract.delta_log import (
    NO_VERSION,
    LogFiles,
    checkpoint_name,
    commit_name,
    version_in,
)
from dataplane.task_failures import TaskFailure

PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": [],
}
METADATA = {
    "schemaString": '{"type":"struct","fields":[]}',
    "partitionColumns": [],
    "configuration": {},
}
VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
}


def commit(root: Path, version: int, *actions: Mapping[str, Any]) -> None:
    log = root / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020}.json").write_text("".join(f"{json.dumps(a)}\n" for a in actions))


def add(path: str, vector: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "add": {
            "path": path,
            "partitionValues": {},
            "size": 1,
            "modificationTime": 1,
            "deletionVector": vector,
        }
    }


def remove(path: str, vector: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionVector": vector}}


def history(root: Path) -> int:
    """A table with a checkpoint in the middle of its history; its last version."""
    for i in range(5):
        rows = pa.table({"id": [i], "k": [f"a b/{i}%"]})
        write_deltalake(str(root), rows, mode="append", partition_by=["k"])
        if i == 2:
            DeltaTable(str(root)).create_checkpoint()
    DeltaTable(str(root)).delete("id = 1")
    return DeltaTable(str(root)).version()


def test_every_version_has_the_files_that_a_library_finds(tmp_path: Path) -> None:
    for version in range(history(tmp_path) + 1):
        found, wanted = snapshot(tmp_path, version), DeltaTable(str(tmp_path), version=version)
        assert sorted(str(local_place(tmp_path, f["path"])) for f in found.files) == sorted(
            wanted.file_uris()
        )
        assert (found.head.version, list(found.head.partition_columns)) == (version, ["k"])
        assert [f["name"] for f in found.head.fields] == ["id", "k"]
        assert head(tmp_path, version) == found.head


def test_files_of_the_change_feed_are_none_of_the_table(tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(
        str(tmp_path), pa.table({"id": [1, 2, 3], "k": ["a", "a", "b"]}), configuration=feed
    )
    table = DeltaTable(str(tmp_path))
    table.update(updates={"k": "'c'"}, predicate="id = 2")
    table.delete("id = 3")
    assert len(list((tmp_path / "_change_data").iterdir())) >= 2
    (found,), (wanted,) = snapshot(tmp_path).files, DeltaTable(str(tmp_path)).file_uris()
    assert str(local_place(tmp_path, found["path"])) == wanted


def test_versions_before_a_checkpoint_may_be_gone(tmp_path: Path) -> None:
    last = history(tmp_path)
    for version in range(3):
        (tmp_path / "_delta_log" / f"{version:020}.json").unlink()
    assert snapshot(tmp_path).head.version == last
    with pytest.raises(TaskFailure, match="version 0 is not in its log"):
        snapshot(tmp_path, 1)
    with pytest.raises(TaskFailure, match=f"no version {last + 1}: its newest is {last}"):
        snapshot(tmp_path, last + 1)


def test_a_gap_in_the_log_is_no_table(tmp_path: Path) -> None:
    history(tmp_path)
    (tmp_path / "_delta_log" / f"{4:020}.json").unlink()
    with pytest.raises(TaskFailure, match="version 4 is not in its log"):
        snapshot(tmp_path)


def test_a_checkpoint_in_parts_counts_once_all_are_there(tmp_path: Path) -> None:
    last = history(tmp_path)
    whole = tmp_path / "_delta_log" / f"{2:020}.checkpoint.parquet"
    whole.rename(whole.with_name(f"{2:020}.checkpoint.{1:010}.{2:010}.parquet"))
    assert snapshot(tmp_path).head.version == last, "by all commits"
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(TaskFailure, match="version 0"):
        snapshot(tmp_path)


def test_a_checkpoint_with_sidecars(tmp_path: Path) -> None:
    commit(tmp_path, 1, add("b.parquet"))
    sidecars = tmp_path / "_delta_log" / "_sidecars"
    sidecars.mkdir()
    pyarrow.parquet.write_table(
        pa.Table.from_pylist([{"add": {"path": "a.parquet", "size": 1}}]), sidecars / "one.parquet"
    )
    actions = ({"protocol": PROTOCOL}, {"metaData": METADATA}, {"sidecar": {"path": "one.parquet"}})
    checkpoint = (
        tmp_path / "_delta_log" / f"{0:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    )
    checkpoint.write_text("".join(f"{json.dumps(a)}\n" for a in actions))
    assert sorted(f["path"] for f in snapshot(tmp_path).files) == ["a.parquet", "b.parquet"]


def test_a_file_with_another_deletion_vector_is_another_entry(tmp_path: Path) -> None:
    commit(tmp_path, 0, {"protocol": PROTOCOL}, {"metaData": METADATA}, add("a.parquet"))
    commit(tmp_path, 1, add("a.parquet", VECTOR), remove("a.parquet"))
    (found,) = snapshot(tmp_path).files
    assert vector_id(found["deletionVector"]) == f"u{VECTOR['pathOrInlineDv']}@4"
    commit(tmp_path, 2, remove("a.parquet", VECTOR))
    assert snapshot(tmp_path).files == ()


def test_where_deletion_vectors_lie(tmp_path: Path) -> None:
    # As the protocol's own example has it
    wanted = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_file(tmp_path, VECTOR) == tmp_path / wanted
    assert vector_file(
        tmp_path, {"storageType": "p", "pathOrInlineDv": "file:///x%20y.bin"}
    ) == Path("/x y.bin")
    assert vector_file(tmp_path, {"storageType": "i", "pathOrInlineDv": "wi5b="}) is None


@pytest.mark.parametrize("made", [False, True])
def test_no_table(tmp_path: Path, made: bool) -> None:
    if made:
        (tmp_path / "_delta_log").mkdir()
    with pytest.raises(TaskFailure) as failure:
        snapshot(tmp_path)
    assert failure.value.condition == "path-not-found"


@pytest.mark.parametrize("damage", [lambda body: body[:50], lambda body: body + b"\n[1]\n"])
def test_a_damaged_commit_is_an_error(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    history(tmp_path)
    last = max((tmp_path / "_delta_log").glob("*.json"))
    last.write_bytes(damage(last.read_bytes()))
    with pytest.raises(TaskFailure) as failure:
        snapshot(tmp_path)
    assert (failure.value.condition, failure.value.kind) == ("unreadable", "infrastructure")


def test_files_elsewhere(tmp_path: Path) -> None:
    assert local_place(tmp_path, "k=a%20b/x.parquet") == tmp_path / "k=a b" / "x.parquet"
    assert local_place(tmp_path, "file:///other/x.parquet") == Path("/other/x.parquet")
    with pytest.raises(TaskFailure, match="lies elsewhere"):
        local_place(tmp_path, "s3://bucket/x.parquet")


def test_names_of_files_in_the_log() -> None:
    parts = [f"{4:020}.checkpoint.{i:010}.{2:010}.parquet" for i in (1, 2)]
    names = [
        "_last_checkpoint",
        commit_name(4),
        commit_name(5),
        checkpoint_name(2),
        *parts,
        "x.json",
        "٣" * 20 + ".json",
    ]
    files = LogFiles.of(reversed(names))
    assert files.commits == {4: commit_name(4), 5: commit_name(5)}
    assert files.checkpoints == {2: (checkpoint_name(2),), 4: tuple(parts)}
    assert (files.newest, files.base(5), files.base(3), files.base(1)) == (5, 4, 2, NO_VERSION)
    assert LogFiles.of(names[:3] + parts[:1]).checkpoints == {}
    assert LogFiles.of([]).newest == NO_VERSION
    assert [version_in(name) for name in names] == [None, 4, 5, 2, 4, 4, None, None]

"""One behaviour suite for every object store."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from obstore.store import LocalStore, MemoryStore

from controlplane.core.errors import NotFound
from controlplane.lake.lake_objects import (
    LakeObjects,
    LakeRefused,
    LocalObjects,
    check_lake,
    open_lake,
)
from controlplane.ports.lake import ObjectStore
from dataplane.lakes.lake_protocol import PIECE_BYTES
from dataplane.lakes.object_store import ObjectStoreFiles


@pytest.fixture(params=["local", "memory", "obstore-local"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    match request.param:
        case "local":
            yield LocalObjects(tmp_path / "a lake")
        case "memory":
            yield LakeObjects(ObjectStoreFiles("memory://", MemoryStore()))
        case _:
            yield LakeObjects(
                ObjectStoreFiles("file:///x", LocalStore(tmp_path, automatic_cleanup=True))
            )


def test_what_was_put_is_read(lake: ObjectStore) -> None:
    assert lake.put_if_absent("a/b=c/d.json", b"body")
    assert lake.read("a/b=c/d.json") == b"body"


def test_what_is_large_is_read_in_pieces(lake: ObjectStore) -> None:
    body = bytes(range(256)) * 4000
    lake.put_if_absent("a/b", body)
    assert b"".join(lake.stream("a/b")) == body
    for start, end in (
        (0, len(body)),
        (1, len(body) - 1),
        (PIECE_BYTES - 1, PIECE_BYTES + 1),
        (2, 2 * len(body)),
    ):
        assert b"".join(lake.stream_range("a/b", start, end)) == body[start:end]
    with pytest.raises(NotFound):
        next(lake.stream("a/c"))
    with pytest.raises(NotFound):
        next(lake.stream_range("a/c", 0, 1))


def test_a_second_put_changes_nothing(lake: ObjectStore) -> None:
    assert lake.put_if_absent("x/y", b"first")
    assert not lake.put_if_absent("x/y", b"second")
    assert lake.read("x/y") == b"first"


def test_one_of_many_concurrent_puts_wins(lake: ObjectStore) -> None:
    with ThreadPoolExecutor(16) as threads:
        won = list(threads.map(lambda i: lake.put_if_absent("race", str(i).encode()), range(64)))
    assert won.count(True) == 1
    assert lake.read("race") == str(won.index(True)).encode()


def test_missing_objects(lake: ObjectStore) -> None:
    with pytest.raises(NotFound):
        lake.read("no/such")
    with pytest.raises(NotFound):
        lake.link("no/such", "target")
    assert lake.sizes("no/such") == {}
    assert list(lake.folders("no/such")) == []
    lake.delete_prefix("no/such")


def test_sizes_are_of_all_objects_below_a_folder(lake: ObjectStore) -> None:
    for path in ("a/1", "a/b/2", "ab/3"):
        lake.put_if_absent(path, path.encode())
    assert lake.sizes("a") == {"a/1": 3, "a/b/2": 5}
    assert lake.sizes("") == {"a/1": 3, "a/b/2": 5, "ab/3": 4}


def test_folders_are_the_names_directly_below(lake: ObjectStore) -> None:
    for path in ("a/b/1", "a/c/d/2", "a/file", "e/3"):
        lake.put_if_absent(path, b"")
    assert list(lake.folders("a")) == ["b", "c"]
    assert list(lake.folders("")) == ["a", "e"]


def test_a_link_outlives_its_source(lake: ObjectStore) -> None:
    lake.put_if_absent("a/file", b"body")
    lake.link("a/file", "b/c/file")
    lake.link("a/file", "b/c/file")
    lake.delete_prefix("a")
    assert lake.read("b/c/file") == b"body"
    assert lake.sizes("a") == {}


def test_deleting_spares_neighbours(lake: ObjectStore) -> None:
    for path in ("a/1", "a/2/3", "ab/4"):
        lake.put_if_absent(path, b"")
    lake.delete_prefix("a")
    lake.delete_prefix("a")
    assert lake.sizes("") == {"ab/4": 0}


def test_deleting_one_object_by_its_name(lake: ObjectStore) -> None:
    for path in ("a/1", "a/11", "a/2"):
        lake.put_if_absent(path, b"x")
    lake.delete_prefix("a/1")
    assert lake.sizes("") == {"a/11": 1, "a/2": 1}


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/./b", "a\0b"])
def test_no_path_leaves_the_lake(lake: ObjectStore, path: str) -> None:
    with pytest.raises(ValueError, match="not a path in the lake"):
        lake.read(path)
    with pytest.raises(ValueError, match="not a path in the lake"):
        lake.delete_prefix(path)


def test_uris_choose_the_store(tmp_path: Path) -> None:
    spaced = tmp_path / "my lake"
    for uri in (str(spaced), spaced.as_uri()):
        store = open_lake(uri)
        assert isinstance(store, LocalObjects)
        assert store.root == spaced
        assert store.uri == spaced.as_uri()
    assert open_lake("memory:///").put_if_absent("a", b"1")


def test_a_local_lake_needs_no_client(tmp_path: Path) -> None:
    for plane in ("controlplane.lake.lake_objects", "dataplane.storage.lake"):
        code = (
            f"import sys, {plane}; {plane}.open_lake(sys.argv[1]); print([m for m in sys.argv[2:] if "
            "m in sys.modules])"
        )
        command = [
            sys.executable,
            "-c",
            code,
            str(tmp_path),
            "obstore",
            "hdfs_native",
            "pyarrow",
            "pyspark",
        ]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_link_to_another_file_is_refused(tmp_path: Path) -> None:
    lake = LocalObjects(tmp_path)
    lake.put_if_absent("a", b"one")
    lake.put_if_absent("b", b"other")
    with pytest.raises(FileExistsError):
        lake.link("a", "b")


def test_unfinished_files_are_no_objects(tmp_path: Path) -> None:
    lake = LocalObjects(tmp_path)
    lake.put_if_absent("a/b", b"1")
    (tmp_path / "a" / ".tmp-left-by-a-crash").write_bytes(b"par")
    assert lake.sizes("a") == {"a/b": 1}


@pytest.mark.parametrize("name", ["a%20b", "a\\b"])
def test_a_folder_in_which_no_table_can_be_is_told_at_once(tmp_path: Path, name: str) -> None:
    for uri in (str(tmp_path / name), (tmp_path / name).as_uri()):
        with pytest.raises(LakeRefused, match="backslash"):
            check_lake(uri)


@pytest.mark.parametrize("name", ["a b", "a+b#c", "100%", "\N{SNOWMAN}"])
def test_other_folders_are_lakes(tmp_path: Path, name: str) -> None:
    check_lake(str(tmp_path / name))

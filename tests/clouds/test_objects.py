"""The behaviour suites of object stores on the emulators of clouds: those of either plane, and
tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import polars
import pytest
from deltalake import DeltaTable

from controlplane.lake.lake_objects import LakeRefused, check_lake, open_lake, storage_options
from controlplane.lake.publisher import DeltaPublisher
from controlplane.ports.lake import ObjectStore
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema
from dataplane.storage.lake import open_lake as open_data_lake
from dataplane.storage.source_stores import StoreAccess, moved, open_root
from tests.s3.test_objects import (  # noqa: F401  # the suites: their tests run here on the lake below
    test_a_server_that_serves,
    test_the_server_keeps_the_first_of_sixteen,
)
from tests.servers.azure import Azure
from tests.servers.gcs import Gcs
from tests.unit.lake.tables import Lake, Rows, struct
from tests.unit.lake.test_objects import (  # noqa: F401
    test_a_link_outlives_its_source,
    test_a_second_put_changes_nothing,
    test_deleting_one_object_by_its_name,
    test_deleting_spares_neighbours,
    test_folders_are_the_names_directly_below,
    test_missing_objects,
    test_no_path_leaves_the_lake,
    test_one_of_many_concurrent_puts_wins,
    test_what_is_large_is_read_in_pieces,
    test_what_was_put_is_read,
)

A = struct(a="long")
AB = struct(a="long", b="string")
Cloud = Azure | Gcs


@pytest.fixture
def lake(uri: str) -> ObjectStore:
    return open_lake(uri)


def test_what_goes_goes_although_some_of_it_has_gone(lake: ObjectStore, uri: str) -> None:
    for name in ("a/1.parquet", "a/2.parquet", "a/3.parquet", "b/4.parquet"):
        lake.put_if_absent(name, b"x")
    data = open_data_lake(uri)
    data.delete(["a/1.parquet", "a/none.parquet", "a/2.parquet"])
    assert data.sizes("a") == {"a/3.parquet": 1}
    data.delete([])
    data.delete_folder("a")
    data.delete_folder("a")
    assert lake.sizes("") == {"b/4.parquet": 1}


def test_what_stands_for_a_folder_goes_with_it(cloud: Cloud, lake: ObjectStore, uri: str) -> None:
    """As Hadoop puts it there: an empty object of the folder's name, with a slash on Google's."""
    for name in ("a/1.parquet", "b/2.parquet", "b/empty"):
        lake.put_if_absent(name, b"")
    for name in ("a", "a/x", "b", "b/_fragment=y"):
        cloud.make_folder(f"{uri}/{name}")
    assert [*lake.folders("")] == ["a", "b"]
    lake.delete_prefix("a")
    assert [*lake.folders("")] == ["b"]
    assert {path.partition("/")[0] for path in lake.sizes("")} == {"b"}
    open_data_lake(uri).delete_folder("b")
    assert (lake.sizes(""), [*lake.folders("")]) == ({}, [])


def test_wrong_credentials(cloud: Cloud, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.forget(monkeypatch)
    with pytest.raises(LakeRefused, match="refuses the credentials") as e:
        check_lake(uri)
    assert cloud.secret not in str(e.value)
    for ask in (lambda: open_lake(uri).sizes("a"), lambda: open_lake(uri).read("a")):
        with pytest.raises(OSError, match="refuses the credentials"):  # and not "nothing there"
            ask()


def test_a_place_that_is_not_there(cloud: Cloud, uri: str) -> None:
    with pytest.raises(
        LakeRefused, match=f"{cloud.nowhere}/x: there is no such (container|bucket)"
    ):
        check_lake(f"{cloud.nowhere}/x")
    lake = open_lake(f"{cloud.nowhere}/x")
    for ask in (lambda: lake.sizes("a"), lambda: lake.read("a"), lambda: lake.folders("")):
        with pytest.raises(OSError, match=r"no such (container|bucket)"):  # and not "nothing there"
            ask()


# --- sources --------------------------------------------------------------------------------------


def test_objects_that_changed_are_told(cloud: Cloud, uri: str) -> None:
    """By a listing, and by asking for each: both tell the same versions."""
    store, root, folder = open_root(cloud.lake, StoreAccess()), cloud.lake, uri.rpartition("/")[2]
    for number in range(20):
        obstore.put(store, f"{folder}/{number:02}.csv", b"a")
    found: list[Any] = [
        {
            "uri": f"{root}/{meta['path']}",
            "size": meta["size"],
            "version": f"etag:{meta['e_tag']} {meta['size']}",
        }
        for meta in obstore.list(store, prefix=folder).collect()
    ]
    assert (moved(StoreAccess(), found), moved(StoreAccess(), found[:3])) == (
        frozenset(),
        frozenset(),
    )
    obstore.put(store, f"{folder}/01.csv", b"b")
    assert (
        moved(StoreAccess(), found)
        == moved(StoreAccess(), found[:3])
        == {f"{root}/{folder}/01.csv"}
    )


# --- tables ---------------------------------------------------------------------------------------


class Remote(Lake):
    """Its fragments are put where they are to be."""

    def __init__(self, folder: Path, uri: str) -> None:
        super().__init__(folder)
        self.uri = uri

    def _file(self, path: str, schema: Schema, rows: Rows) -> FileEntry:
        found = super()._file(path, schema, rows)
        assert open_lake(self.uri).put_if_absent(path, (self.root / path).read_bytes())
        return found


@pytest.fixture
def publisher(uri: str) -> Iterator[DeltaPublisher]:
    found = DeltaPublisher(uri)
    yield found
    found.close()


def rows(*values: int) -> Rows:
    return [{"a": value} for value in values]


def test_a_table_is_made_changed_and_widened(
    tmp_path: Path, publisher: DeltaPublisher, uri: str
) -> None:
    lake = Remote(tmp_path, uri)
    one, two, other = (
        lake.fragment(A, rows(n), home=home)
        for n, home in ((1, ""), (2, ""), (3, "default/flow/other"))
    )
    assert publisher.publish(lake.table(A, one, two)) == 0
    assert publisher.publish(lake.table(A, one, two)) == 0
    # Two copies on the server
    assert publisher.publish(lake.table(A, two, other, other, generation=2)) == 1
    wide = lake.fragment(AB, [{"a": 4, "b": "x"}])
    assert publisher.publish(lake.table(AB, other, wide, generation=3)) == 3
    expected, address = [{"a": 3, "b": None}, {"a": 4, "b": "x"}], f"{uri}/{lake.folder}"
    options = storage_options(uri)
    found = DeltaTable(address, storage_options=options)
    assert sorted(found.to_pyarrow_table().to_pylist(), key=repr) == expected
    assert polars.read_delta(address, storage_options=options).sort("a").to_dicts() == expected


def test_somebody_elses_commit_is_not_written_over(
    tmp_path: Path, publisher: DeltaPublisher, uri: str
) -> None:
    lake = Remote(tmp_path, uri)
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    publisher.publish(lake.table(A, one))
    path = f"{lake.folder}/_delta_log/{1:020}.json"
    assert open_lake(uri).put_if_absent(
        path, b'{"commitInfo": {"operation": "of somebody else"}}\n'
    )
    assert publisher.publish(lake.table(A, one, two, generation=2)) == 2
    assert b"somebody else" in open_lake(uri).read(path)


def test_without_credentials_it_is_a_fault_in_words(
    cloud: Cloud,
    tmp_path: Path,
    publisher: DeltaPublisher,
    uri: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = Remote(tmp_path, uri)
    table = lake.table(A, lake.fragment(A, rows(1)))
    cloud.forget(monkeypatch)
    with pytest.raises(OSError, match=cloud.refused) as e:
        publisher.publish(table)
    assert cloud.secret not in str(e.value)

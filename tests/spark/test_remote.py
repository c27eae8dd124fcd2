"""Source files in an object store, read in place: the tests of local files, and names that only a
store has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import obstore
import pytest
from pyspark.sql import SparkSession

from dataplane.contract.claims import Claim
from dataplane.contract.kinds import Kind
from dataplane.storage.source_stores import StoreAccess, open_root, uri_of, version_of
from tests.servers.s3 import CREDENTIALS, S3
from tests.slices import in_turn
from tests.spark import test_file_types, test_folder_columns, test_infer, test_parse
from tests.spark.conftest import Lake, failed, read, schema_of
from tests.spark.test_parse import HOSTILE

ROOT = "s3://lake"
SECRETS = {
    "HEADGATE_SECRET_STORE_ID": CREDENTIALS["AWS_ACCESS_KEY_ID"],
    "HEADGATE_SECRET_STORE_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
}


@dataclass(frozen=True, slots=True)
class Name:
    """The name of an object, or of what stands for a folder, used as a path is."""

    access: StoreAccess
    path: str

    def __truediv__(self, name: str) -> Name:
        return Name(self.access, f"{self.path}/{name}")

    def __str__(self) -> str:
        return uri_of(ROOT, self.path)

    def write_bytes(self, data: bytes) -> None:
        obstore.put(open_root(ROOT, self.access), self.path, data, use_multipart=False)

    def write_text(self, text: str) -> None:
        self.write_bytes(text.encode())

    def unlink(self) -> None:
        obstore.delete(open_root(ROOT, self.access), self.path)


class Remote(Lake):
    """Its sources are objects, found by an address and secrets that jobs name."""

    def __init__(self, spark: SparkSession, folder: Path, server: S3) -> None:
        super().__init__(spark, folder)
        keys = (CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"])
        self.access = StoreAccess(server.url, "us-east-1", *keys)
        self.sources = Name(self.access, uuid4().hex)  # type: ignore[assignment]  # it is used as one
        self.settings = {
            "storage.endpoint": server.url,
            "storage.region": "us-east-1",
            "storage.access_key_id": "secret://store/id",
            "storage.secret_access_key": "secret://store/key",
        }

    def claim(
        self, kind: Kind, job: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]
    ) -> Claim:
        return super().claim(kind, {**job, "settings": self.settings}, tasks)

    def source(
        self, name: str, content: bytes | str, columns: Sequence[str] | None = None
    ) -> dict[str, Any]:
        place = self.sources / name
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        meta = obstore.head(open_root(ROOT, self.access), place.path)  # type: ignore[attr-defined]
        return {
            "name": name,
            "uri": str(place),
            "size": meta["size"],
            "modified_ms": round(meta["last_modified"].timestamp() * 1000),
            "version": version_of(meta, self.access),
            "columns": None if columns is None else list(columns),
        }


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    server = S3().start()
    yield server
    server.remove()


@pytest.fixture
def lake(
    spark: SparkSession, tmp_path: Path, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Remote]:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    found = Remote(spark, tmp_path, s3)
    yield found
    found.executor.close()


class TestOfLocalFiles:
    """Tests of local files, with objects as sources: what differs is how bytes come, which the
    tests below ask."""

    pytestmark = in_turn(0, 4)
    test_nanoseconds_are_read_to_the_microsecond_or_refused = staticmethod(
        test_file_types.test_nanoseconds_are_read_to_the_microsecond_or_refused
    )
    test_a_column_of_the_file_wins_and_has_to_agree = staticmethod(
        test_folder_columns.test_a_column_of_the_file_wins_and_has_to_agree
    )
    test_folders_are_columns_in_every_format = staticmethod(
        test_folder_columns.test_folders_are_columns_in_every_format
    )
    test_a_schema_of_files_that_changed_meanwhile_is_void = staticmethod(
        test_infer.test_a_schema_of_files_that_changed_meanwhile_is_void
    )
    test_csv_types_hold_for_all_files = staticmethod(test_infer.test_csv_types_hold_for_all_files)
    test_other_formats_are_inferred_in_order_of_appearance = staticmethod(
        test_infer.test_other_formats_are_inferred_in_order_of_appearance
    )
    test_what_cannot_be_inferred_fails_in_words = staticmethod(
        test_infer.test_what_cannot_be_inferred_fails_in_words
    )
    test_a_changed_or_vanished_object_voids_its_task_alone = staticmethod(
        test_parse.test_a_changed_or_vanished_object_voids_its_task_alone
    )
    test_bad_records_can_be_dropped_and_are_counted = staticmethod(
        test_parse.test_bad_records_can_be_dropped_and_are_counted
    )
    test_csv_with_a_header_is_matched_by_name = staticmethod(
        test_parse.test_csv_with_a_header_is_matched_by_name
    )
    test_nothing_is_ordinary = staticmethod(test_parse.test_nothing_is_ordinary)
    test_only_what_is_broken_fails = staticmethod(test_parse.test_only_what_is_broken_fails)
    test_text_binary_and_compressed_files = staticmethod(
        test_parse.test_text_binary_and_compressed_files
    )


def test_one_job_reads_objects_of_every_name(lake: Remote) -> None:
    columns = schema_of(lake.spark, "a INT")
    names = [name for name in HOSTILE if not name.startswith(("_hidden", ".")) and "\n" not in name]
    tasks = [
        {"columns": columns, "objects": [lake.source(n, f"a\n{i}\n", ["a"])]}
        for i, n in enumerate(names)
    ]
    results = lake.run("parse", read("csv", metadata=["name"]), tasks)
    rows = [lake.rows(result) for result in results]
    assert rows == [[{"a": i, "_source_name": name}] for i, name in enumerate(names)]


def test_what_spark_would_pass_over_is_refused(lake: Remote) -> None:
    columns = schema_of(lake.spark, "a INT")
    names = ("good.csv", "_hidden.csv", "x._COPYING_", ".dot.csv")
    tasks = [{"columns": columns, "objects": [lake.source(n, "a\n1\n", ["a"])]} for n in names]
    good, *hidden = lake.run("parse", read("csv"), tasks)
    assert lake.rows(good) == [{"a": 1}]
    assert [failed(result)["condition"] for result in hidden] == ["hidden-name"] * 3


def test_many_objects_are_found_unchanged_by_a_listing(lake: Remote) -> None:
    columns = schema_of(lake.spark, "a INT")
    objects = [lake.source(f"{i:03}.csv", "a\n1\n", ["a"]) for i in range(30)]
    (lake.sources / "007.csv").write_text("a\n2\n")
    results = lake.run(
        "parse",
        read("csv"),
        [{"columns": columns, "objects": objects[n : n + 20]} for n in (0, 10)],
    )
    assert [result["state"] for result in results] == ["void", "done"]


def test_other_credentials_are_another_way_to_the_same_bucket(
    lake: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = {
        "columns": schema_of(lake.spark, "a INT"),
        "objects": [lake.source("a.csv", "a\n1\n", ["a"])],
    }
    assert lake.rows(lake.run("parse", read("csv"), [task])[0]) == [{"a": 1}]
    monkeypatch.setenv("HEADGATE_SECRET_STORE_KEY", "wrong")
    error = failed(lake.run("parse", read("csv"), [task])[0])
    assert "hg" not in error["message"].partition("s3://")[0]
    assert error["condition"] in ("credentials-refused", "permission-denied")

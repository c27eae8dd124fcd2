"""Tables on a real S3 server: commits are conditional puts, whoever else commits and whatever is
not answered."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from controlplane.core.model.projections import TableContent
from controlplane.core.model.table_paths import table_path
from controlplane.lake.publisher import DeltaPublisher
from tests.servers.faulty import Faulty, Kind
from tests.servers.s3 import S3
from tests.unit.lake.tables import Lake, Rows, read_by_deltalake, struct

A = struct(a="long")
AB = struct(a="long", b="string")
HTTP = {"allow_http": "true"}


def rows(*values: int) -> Rows:
    return [{"a": value} for value in values]


@pytest.fixture
def lake(s3: S3, uri: str) -> Lake:
    """Objects are files of the server's folder, so that fragments can be put, and tables looked at,
    behind its back."""
    return Lake(s3.home / "data" / uri.removeprefix("s3://"))


@pytest.fixture
def publisher(uri: str) -> Iterator[DeltaPublisher]:
    found = DeltaPublisher(uri)
    yield found
    found.close()


def log(lake: Lake) -> list[str]:
    return sorted(p.name for p in (Path(lake.location) / "_delta_log").glob("*.json"))


def test_a_table_is_made_changed_and_widened(
    lake: Lake, publisher: DeltaPublisher, uri: str
) -> None:
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
    expected = [{"a": 3, "b": None}, {"a": 4, "b": "x"}]
    address = f"{uri}/{lake.folder}"
    found = DeltaTable(address, storage_options=HTTP)
    assert sorted(found.to_pyarrow_table().to_pylist(), key=repr) == expected
    assert polars.read_delta(address, storage_options=HTTP).sort("a").to_dicts() == expected
    assert read_by_deltalake(lake.location) == expected


def test_a_table_of_a_branch_names_objects_where_they_are(
    lake: Lake, publisher: DeltaPublisher, uri: str
) -> None:
    """Only a second copy of an object is a copy on the server."""
    folder = table_path("default", "dev", "flow.daily")
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    for generation, some in enumerate([(one, two), (two, two)]):
        publisher.publish(TableContent(folder, A, some, generation, "flow.daily", borrows=True))
    table = DeltaTable(f"{uri}/{folder}", storage_options=HTTP)
    found = QueryBuilder().register("t", table).execute("SELECT a FROM t")
    assert pa.table(found).to_pylist() == rows(2, 2)
    assert sorted(
        path.partition("/")[0] for path in table.get_add_actions().column("path").to_pylist()
    ) == [
        "_frags",
        "s3:",
    ]


def test_two_publishers_of_one_table_lose_no_commit(lake: Lake, uri: str) -> None:
    fragments = [lake.fragment(A, rows(n)) for n in range(12)]
    publishers = [DeltaPublisher(uri), DeltaPublisher(uri)]

    def publish(number: int) -> int:
        return publishers[number % 2].publish(
            lake.table(A, *fragments[: number + 1], generation=number + 1)
        )

    publish(0)
    with ThreadPoolExecutor(2) as threads:
        versions = list(threads.map(publish, range(1, 11)))
    last = publish(11)
    for one in publishers:
        one.close()
    assert last >= max(versions)
    assert log(lake) == [f"{n:020}.json" for n in range(last + 1)]
    assert read_by_deltalake(lake.location) == sorted(rows(*range(12)), key=repr)


@pytest.mark.parametrize("kind", ["slow-down", "unanswered"])
def test_a_commit_whose_answer_is_lost_is_not_made_twice(
    line: Faulty, lake: Lake, publisher: DeltaPublisher, kind: Kind
) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    faults = [line.add(kind, "PUT", f"_delta_log/{n:020}.json") for n in (0, 1)]
    assert publisher.publish(lake.table(A, one)) == 0
    assert publisher.publish(lake.table(A, one, two, generation=2)) == 1
    assert [fault.met for fault in faults] == [1, 1]
    assert len(log(lake)) == 2
    assert read_by_deltalake(lake.location) == rows(1, 2)


def test_a_log_that_is_cut_while_it_is_read(
    line: Faulty, lake: Lake, publisher: DeltaPublisher
) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    publisher.publish(lake.table(A, one))
    cut = line.add("cut", "GET", "_delta_log/.*json", times=2)
    assert publisher.publish(lake.table(A, one, two, generation=2)) == 1
    assert cut.met == 2


def test_without_credentials_it_is_a_fault_in_words(
    lake: Lake, publisher: DeltaPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-the-secret")
    with pytest.raises(OSError, match="SignatureDoesNotMatch") as e:
        publisher.publish(lake.table(A, lake.fragment(A, rows(1))))
    assert "not-the-secret" not in str(e.value)

"""Tables of branches: a log in a folder of its own, over the files of main, which stay where they
are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from controlplane.core.model.projections import TableContent
from controlplane.core.model.table_paths import table_path
from controlplane.core.model.tasks import Fragment
from controlplane.lake.publisher import DeltaPublisher
from dataplane.contract.schemas import Schema
from tests.unit.lake.tables import Lake, Rows, all_types, read_by_deltalake, struct

A, AB = struct(a="long"), struct(a="long", b="string")
MAINS = table_path("default", "main", "flow.daily")
DEVS = table_path("default", "dev", "flow.daily")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """In a folder that has to be escaped in an address."""
    (tmp_path / "a läke, 100% + x").mkdir()
    return Lake(tmp_path / "a läke, 100% + x", MAINS)


@pytest.fixture
def publisher(lake: Lake) -> Iterator[DeltaPublisher]:
    publisher = DeltaPublisher(lake.root.as_uri())
    yield publisher
    publisher.close()


def of_branch(schema: Schema, *fragments: Fragment, generation: int = 1) -> TableContent:
    return TableContent(DEVS, schema, fragments, generation, "flow.daily", borrows=True)


def rows(*values: int) -> Rows:
    return [{"a": v} for v in values]


def read(lake: Lake) -> Rows:
    """By a reader that takes addresses: they are part of the protocol, but many readers do not."""
    table = DeltaTable(str(lake.root / DEVS))
    found = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t"))
    return sorted(found.to_pylist(), key=repr)


def adds(lake: Lake) -> list[str]:
    return sorted(DeltaTable(str(lake.root / DEVS)).get_add_actions().column("path").to_pylist())


def commit(lake: Lake, version: int) -> list[tuple[str, str, bool]]:
    """What a version adds and removes, and whether that changes rows."""
    text = (lake.root / DEVS / f"_delta_log/{version:020}.json").read_text()
    entries = [
        (kind, body) for line in text.splitlines() for kind, body in json.loads(line).items()
    ]
    return sorted(
        (kind, body["path"], body["dataChange"])
        for kind, body in entries
        if kind in ("add", "remove")
    )


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def test_rows_of_all_types_are_read_where_they_are(lake: Lake, publisher: DeltaPublisher) -> None:
    schema, expected = all_types()
    one = lake.fragment(schema, expected[:1], expected[1:])
    elsewhere = lake.fragment(schema, expected[:1], home="default/flow/other")
    before = files(lake.root)
    publisher.publish(of_branch(schema, one, elsewhere))
    assert read(lake) == sorted([*expected, expected[0]], key=repr)
    made = files(lake.root).keys() - before.keys()
    assert {str(Path(path).parent) for path in made} == {f"{DEVS}/_delta_log"}


def test_main_is_not_touched(lake: Lake, publisher: DeltaPublisher) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    publisher.publish(lake.table(A, one))
    before = files(lake.root / MAINS)
    for n, some in enumerate([(one, two), (two,), (two, two), (one,)]):
        publisher.publish(of_branch(A, *some, generation=n))
    after = files(lake.root / MAINS)
    assert {
        path: body for path, body in after.items() if not path.startswith("_branches/")
    } == before
    assert read_by_deltalake(lake.location) == rows(1)


def test_a_generation_is_one_commit_of_the_difference(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    one, two, three = (lake.fragment(A, rows(n)) for n in (1, 2, 3))
    assert publisher.publish(of_branch(A, one, two)) == 0
    assert publisher.publish(of_branch(A, one, two, generation=2)) == 0
    assert publisher.publish(of_branch(A, one, three, generation=2)) == 1
    assert [kind for kind, _, _ in commit(lake, 1)] == ["add", "remove"]
    assert commit(lake, 1)[1][1] == next(
        path for kind, path, _ in commit(lake, 0) if path not in adds(lake)
    )
    assert read(lake) == rows(1, 3)


def test_a_second_copy_of_a_file_is_a_link_in_the_branch(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    same = lake.fragment(A, rows(1))
    publisher.publish(of_branch(A, same, same))
    assert [path.partition("/")[0] for path in adds(lake)] == ["_frags", "file:"]
    assert read(lake) == rows(1, 1)
    publisher.publish(of_branch(A, same, generation=2))
    assert read(lake) == rows(1)


def test_other_files_with_the_same_rows_are_no_change_of_data(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    one, two, both = (
        lake.fragment(A, rows(1)),
        lake.fragment(A, rows(2)),
        lake.fragment(A, rows(1, 2)),
    )
    publisher.publish(of_branch(A, one, two))
    publisher.publish(replace(of_branch(A, both), is_layout=True))
    assert [is_change for _, _, is_change in commit(lake, 1)] == [False] * 3
    assert read(lake) == rows(1, 2)


def test_columns_are_added_and_others_are_written_over(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(AB, [{"a": 2, "b": "x"}])
    publisher.publish(of_branch(A, one))
    publisher.publish(of_branch(AB, one, two, generation=2))
    assert read(lake) == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    three = lake.fragment(struct(b="string"), [{"b": "y"}])
    publisher.publish(of_branch(struct(b="string"), three, generation=3))
    assert read(lake) == [{"b": "y"}]
    assert len(adds(lake)) == 1
    publisher.publish(of_branch(struct(b="string"), generation=4))
    assert read(lake) == []


def test_checkpoints_hold_the_same(lake: Lake, publisher: DeltaPublisher) -> None:
    some = [lake.fragment(A, rows(n)) for n in range(4)]
    publisher.publish(of_branch(A, *some[:2]))
    DeltaTable(str(lake.root / DEVS)).create_checkpoint()
    assert publisher.publish(of_branch(A, *some[:2], generation=2)) == 0
    publisher.publish(of_branch(A, *some[1:], generation=3))
    assert read(lake) == rows(1, 2, 3)


def test_a_log_that_nobody_can_read_is_made_anew(lake: Lake, publisher: DeltaPublisher) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    publisher.publish(of_branch(A, one))
    publisher.publish(of_branch(A, one, two, generation=2))
    (lake.root / DEVS / f"_delta_log/{0:020}.json").unlink()
    told: list[str] = []
    assert publisher.publish(of_branch(A, two, generation=3), told.append) == 2
    assert told
    assert read(lake) == rows(2)
    assert publisher.publish(of_branch(A, two, generation=3)) == 2


def test_a_lake_that_was_moved(lake: Lake, publisher: DeltaPublisher) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    publisher.publish(of_branch(A, one, two))
    publisher.close()
    moved = Lake(lake.root.rename(lake.root.with_name("elsewhere")), MAINS)
    there = DeltaPublisher(moved.root.as_uri())
    assert there.publish(of_branch(A, one, two)) == 1
    there.close()
    assert read(moved) == rows(1, 2)


@pytest.mark.parametrize("failpoint", ["publish-before-log", "publish-after-log"])
def test_killed_in_the_middle(
    lake: Lake, publisher: DeltaPublisher, monkeypatch: pytest.MonkeyPatch, failpoint: str
) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    publisher.publish(of_branch(A, one))
    dying = DeltaPublisher(lake.root.as_uri())
    monkeypatch.setenv("HEADGATE_FAILPOINTS", failpoint)
    with pytest.raises(OSError, match="ended with -9"):
        dying.publish(of_branch(A, two, two, generation=2))
    monkeypatch.delenv("HEADGATE_FAILPOINTS")
    dying.close()
    assert publisher.publish(of_branch(A, two, two, generation=2)) == 1
    assert read(lake) == rows(2, 2)

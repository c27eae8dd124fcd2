"""Published tables: read back by three readers; every rule of publication; the child killed at its
worst moments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.transaction import CommitProperties, RemoveAction

from controlplane.core.model.leases import LOOP, Deposed
from controlplane.lake.publish_child import (
    CHECKPOINT_INTERVAL,
    CHECKPOINTS_KEPT,
    FEED,
    superseded_checkpoint,
)
from controlplane.lake.publisher import CannotPublish, DeltaPublisher
from tests.unit.lake.tables import READERS, Lake, Rows, all_types, read_by_deltalake, struct

A = struct(a="long")
AB = struct(a="long", b="string")


def rows(*values: int) -> Rows:
    return [{"a": v} for v in values]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lake")


@pytest.fixture
def lake(root: Path) -> Lake:
    """A table of its own in the lake that all tests share."""
    return Lake(root, f"default/flow/table_{uuid4().hex}")


@pytest.fixture(scope="module")
def publisher(root: Path) -> Iterator[DeltaPublisher]:
    publisher = DeltaPublisher(root.as_uri())
    yield publisher
    publisher.close()


def actions(lake: Lake, version: int) -> dict[str, list[Any]]:
    """The entries of one commit of the log by kind."""
    text = (Path(lake.location) / "_delta_log" / f"{version:020}.json").read_text()
    found: dict[str, list[Any]] = {}
    for line in text.splitlines():
        for kind, body in json.loads(line).items():
            found.setdefault(kind, []).append(body)
    return found


def check(lake: Lake, expected: Rows) -> None:
    for read in READERS:
        assert read(lake.location) == sorted(expected, key=repr), read.__name__


@pytest.mark.slow
def test_all_readers_agree(lake: Lake, publisher: DeltaPublisher) -> None:
    schema, expected = all_types()
    publisher.publish(lake.table(schema, lake.fragment(schema, expected[:1], expected[1:])))
    check(lake, expected)


def test_plain_types_need_no_features_of_readers(lake: Lake, publisher: DeltaPublisher) -> None:
    publisher.publish(lake.table(A, lake.fragment(A, rows(1))))
    protocol = lake.open().protocol()
    # The change data feed is a matter of writers
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 4)
    configuration = lake.open().metadata().configuration
    assert configuration["delta.checkpointInterval"] == "20"
    assert configuration["delta.deletedFileRetentionDuration"] == "interval 36500 days"


def test_a_generation_that_adds_is_an_add_only_commit(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    assert publisher.publish(lake.table(A, one)) == 0
    assert publisher.publish(lake.table(A, one, two, generation=7)) == 1
    commit = actions(lake, 1)
    assert set(commit) == {"commitInfo", "add", "txn"}
    assert [a["path"] for a in commit["add"]] == [
        two.files[0]["path"].removeprefix(f"{lake.folder}/")
    ]
    assert commit["txn"][0] == {"appId": "headgate", "version": 7}
    assert (commit["commitInfo"][0]["generation"], commit["commitInfo"][0]["dataset"]) == (
        7,
        "flow.daily",
    )
    check(lake, rows(1, 2))


def test_a_swap_is_one_commit_of_just_the_difference(lake: Lake, publisher: DeltaPublisher) -> None:
    one, two, three = (lake.fragment(A, rows(n)) for n in (1, 2, 3))
    publisher.publish(lake.table(A, one, two))
    assert publisher.publish(lake.table(A, one, three, generation=2)) == 1
    commit = actions(lake, 1)
    assert (len(commit["add"]), len(commit["remove"])) == (1, 1)
    assert commit["remove"][0]["deletionTimestamp"] > 32_000_000_000_000
    check(lake, rows(1, 3))


def test_other_files_with_the_same_rows_are_no_change_of_data(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    one, two, both = (
        lake.fragment(A, rows(1)),
        lake.fragment(A, rows(2)),
        lake.fragment(A, rows(1, 2)),
    )
    publisher.publish(lake.table(A, one, two))
    assert publisher.publish(replace(lake.table(A, both), is_layout=True)) == 1
    commit = actions(lake, 1)
    assert [one["dataChange"] for kind in ("add", "remove") for one in commit[kind]] == [
        False,
        False,
        False,
    ]
    check(lake, rows(1, 2))


def test_what_others_did_to_a_table_is_a_change_whatever_was_meant(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    one, both = lake.fragment(A, rows(1)), lake.fragment(A, rows(1, 2))
    publisher.publish(lake.table(A, one))
    publisher.publish(replace(lake.table(A, both), is_layout=True))
    assert [one["dataChange"] for kind in ("add", "remove") for one in actions(lake, 1)[kind]] == [
        True,
        True,
    ]


def test_other_rows_are_a_change_though_there_are_as_many(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    one, two, both = (
        lake.fragment(A, rows(1)),
        lake.fragment(A, rows(2)),
        lake.fragment(A, rows(1, 2)),
    )
    publisher.publish(lake.table(A, one, two))
    lake.open().update(updates={"a": "9"}, predicate="a = 1")
    assert publisher.publish(replace(lake.table(A, both), is_layout=True)) == 2
    assert {one["dataChange"] for kind in ("add", "remove") for one in actions(lake, 2)[kind]} == {
        True
    }
    check(lake, rows(1, 2))


def test_publishing_again_commits_nothing(lake: Lake, publisher: DeltaPublisher) -> None:
    table = lake.table(A, lake.fragment(A, rows(1)))
    assert [publisher.publish(t) for t in (table, table, replace(table, generation=9))] == [0, 0, 0]


def test_of_many_checkpoints_the_newest_and_some_older_ones_stay() -> None:
    kept: set[int] = set()
    for version in range(CHECKPOINT_INTERVAL - 1, 5_000, CHECKPOINT_INTERVAL):
        kept.add(version)
        kept -= {superseded_checkpoint(version)}
    older = {999, 1999, 2999}
    assert kept == older | {*range(4_019 - CHECKPOINT_INTERVAL, 5_000, CHECKPOINT_INTERVAL)}


def test_a_version_whose_checkpoint_went_is_still_read(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    publisher.publish(lake.table(A, one))
    log, first = Path(lake.location) / "_delta_log", CHECKPOINT_INTERVAL - 1
    newest = first + CHECKPOINTS_KEPT * CHECKPOINT_INTERVAL
    for version in range(1, newest):
        (log / f"{version:020}.json").write_text('{"commitInfo":{}}\n')
        if version == first:
            lake.open().create_checkpoint()
    assert [path.name for path in log.glob("*.parquet")] == [f"{first:020}.checkpoint.parquet"]
    assert publisher.publish(lake.table(A, one, two, generation=2)) == newest
    assert [path.name for path in log.glob("*.parquet")] == [f"{newest:020}.checkpoint.parquet"]
    check(lake, rows(1, 2))
    assert DeltaTable(lake.location, version=first).to_pyarrow_table().to_pylist() == rows(1)


def test_the_order_of_fragments_does_not_matter(lake: Lake, publisher: DeltaPublisher) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    assert (
        publisher.publish(lake.table(A, one, two))
        == publisher.publish(lake.table(A, two, one))
        == 0
    )


def test_equal_partitions_get_a_copy_each(lake: Lake, publisher: DeltaPublisher) -> None:
    same = lake.fragment(A, rows(1), rows(2))
    publisher.publish(lake.table(A, same, same, same))
    check(lake, rows(1, 1, 1, 2, 2, 2))
    publisher.publish(lake.table(A, same, generation=2))
    check(lake, rows(1, 2))
    publisher.publish(lake.table(A, same, same, generation=3))
    check(lake, rows(1, 1, 2, 2))


def test_fragments_of_other_datasets_are_linked_below_the_table(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    foreign = lake.fragment(A, rows(5), home="default/other/source")
    publisher.publish(lake.table(A, foreign, foreign))
    paths = [a["path"] for a in actions(lake, 0)["add"]]
    assert all(
        p.startswith(f"_frags/links/{foreign.id.hex()[:2]}/{foreign.id.hex()[:32]}-") for p in paths
    )
    inodes = {os.stat(f"{lake.location}/{p}").st_ino for p in paths}
    assert inodes == {(lake.root / foreign.files[0]["path"]).stat().st_ino}
    check(lake, rows(5, 5))


def test_an_added_column_is_a_commit_of_metadata_and_one_of_files(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    old = lake.fragment(A, rows(1))
    publisher.publish(lake.table(A, old))
    new = lake.fragment(AB, [{"a": 2, "b": "x"}])
    assert publisher.publish(lake.table(AB, old, new, generation=2)) == 2
    assert set(actions(lake, 1)) == {"commitInfo", "metaData"}
    assert set(actions(lake, 2)) == {"commitInfo", "add", "txn"}
    check(lake, [{"a": 1, "b": None}, {"a": 2, "b": "x"}])


def test_an_added_timestamp_without_zone_raises_the_protocol(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    old = lake.fragment(A, rows(1))
    publisher.publish(lake.table(A, old))
    publisher.publish(lake.table(struct(a="long", local="timestamp_ntz"), old, generation=2))
    check(lake, [{"a": 1, "local": None}])


NESTED = struct(
    a="long",
    times={"type": "array", "elementType": "timestamp_ntz", "containsNull": True},
    prices={
        "type": "map",
        "keyType": "string",
        "valueType": struct(x="decimal(10,2)", since="timestamp"),
        "valueContainsNull": True,
    },
)


def test_nested_types_come_and_are_recognised(lake: Lake, publisher: DeltaPublisher) -> None:
    old = lake.fragment(A, rows(1))
    publisher.publish(lake.table(A, old))
    version = publisher.publish(lake.table(NESTED, old, generation=2))
    assert publisher.publish(lake.table(NESTED, old, generation=3)) == version
    check(lake, [{"a": 1, "times": None, "prices": None}])


@pytest.mark.parametrize(
    ("schema", "row"),
    [
        (struct(a="string"), {"a": "x"}),
        (struct(b="string", a="long"), {"b": "x", "a": 1}),
        (struct(b="string"), {"b": "x"}),
        (struct(a="timestamp_ntz"), {"a": None}),
    ],
    ids=["type", "order", "column", "feature"],
)
def test_any_other_change_of_schema_is_one_overwrite(
    lake: Lake, publisher: DeltaPublisher, schema: Any, row: dict[str, Any]
) -> None:
    publisher.publish(lake.table(A, lake.fragment(A, rows(1))))
    assert publisher.publish(lake.table(schema, lake.fragment(schema, [row]), generation=2)) == 1
    assert lake.open().metadata().configuration["delta.checkpointInterval"] == "20"
    check(lake, [row])


def test_a_feed_that_somebody_ended_stays_ended(lake: Lake, publisher: DeltaPublisher) -> None:
    publisher.publish(lake.table(A, lake.fragment(A, rows(1))))
    lake.open().alter.set_table_properties({FEED: "false"})
    text = struct(a="string")
    for generation, schema in enumerate((A, AB, text), start=2):
        publisher.publish(lake.table(schema, lake.fragment(schema), generation=generation))
        assert lake.open().metadata().configuration[FEED] == "false"
    assert json.loads(lake.open().schema().to_json()) == text, "the last one is an overwrite"


def test_several_publishers_give_an_earlier_table_its_feed_once(lake: Lake) -> None:
    one = lake.fragment(A, rows(1))
    publishers = [DeltaPublisher(lake.root.as_uri()) for _ in range(3)]
    publishers[0].publish(lake.table(A, one))
    lake.forget_feed()
    tables = [lake.table(A, one, lake.fragment(A, rows(n)), generation=n) for n in (2, 3, 4)]
    with ThreadPoolExecutor(3) as pool:
        versions = list(
            pool.map(lambda pair: pair[0].publish(pair[1]), zip(publishers, tables, strict=True))
        )
    assert sorted(versions) == [2, 3, 4]
    newest = lake.open()
    assert newest.version() == 4, "three changes after the commit of the property"
    check(lake, rows(1, 2 + versions.index(4)))
    for publisher in publishers:
        publisher.close()


def test_an_overwrite_that_keeps_a_fragment_gives_it_a_fresh_path(
    lake: Lake, publisher: DeltaPublisher
) -> None:
    kept = lake.fragment(A, rows(1))
    publisher.publish(lake.table(AB, kept, lake.fragment(AB, [{"a": 2, "b": "x"}])))
    for generation, schema in ((2, A), (3, struct(b="string", a="long")), (4, AB)):
        version = publisher.publish(lake.table(schema, kept, generation=generation))
        commit = actions(lake, version)
        assert not {a["path"] for a in commit["add"]} & {r["path"] for r in commit["remove"]}
        expected = [{f["name"]: 1 if f["name"] == "a" else None for f in schema["fields"]}]
        check(lake, expected)
    assert publisher.publish(lake.table(AB, kept, generation=5)) == version


def test_a_revert_activates_the_earlier_files_again(lake: Lake, publisher: DeltaPublisher) -> None:
    one, two = lake.fragment(A, rows(1)), lake.fragment(A, rows(2))
    for generation, fragment in enumerate((one, two, one, two, one)):
        assert publisher.publish(lake.table(A, fragment, generation=generation)) == generation
    check(lake, rows(1))


def test_tables_without_rows(lake: Lake, publisher: DeltaPublisher) -> None:
    empty, filled = lake.fragment(A), lake.fragment(A, rows(1))
    assert publisher.publish(lake.table(A)) == 0
    check(lake, [])
    assert publisher.publish(lake.table(A, empty)) == 0
    publisher.publish(lake.table(A, empty, filled))
    publisher.publish(lake.table(A, empty))
    check(lake, [])


def test_checkpoints_appear_and_tables_stay_readable(lake: Lake, publisher: DeltaPublisher) -> None:
    fragments = [lake.fragment(A, rows(n)) for n in range(22)]
    for n in range(22):
        publisher.publish(lake.table(A, *fragments[: n + 1], generation=n))
    assert list((Path(lake.location) / "_delta_log").glob("*.checkpoint.parquet"))
    check(lake, rows(*range(22)))


def test_statistics_are_those_of_the_files(lake: Lake, publisher: DeltaPublisher) -> None:
    fragment = lake.fragment(A, rows(1, 5))
    stats = {"numRecords": 2, "minValues": {"a": 1}, "maxValues": {"a": 5}, "nullCount": {"a": 0}}
    with_stats = replace(fragment, files=tuple({**f, "stats": stats} for f in fragment.files))
    publisher.publish(lake.table(A, with_stats))
    assert json.loads(actions(lake, 0)["add"][0]["stats"]) == stats


def _remove_all(table: DeltaTable) -> None:
    table.delete()


def _remove_one(table: DeltaTable) -> None:
    (path, *_), (size, *_) = (
        table.get_add_actions().column(c).to_pylist() for c in ("path", "size_bytes")
    )
    table.create_write_transaction(
        [RemoveAction(path, True, 1, size, {})], "append", table.schema()
    )


def _append(table: DeltaTable) -> None:
    table.create_write_transaction(
        [], "append", table.schema(), commit_properties=CommitProperties({"by": "x"})
    )


def _drop_log(table: DeltaTable) -> None:
    for file in (
        Path(table.table_uri.removeprefix("file://").replace("%20", " ")) / "_delta_log"
    ).iterdir():
        file.unlink()


@pytest.mark.parametrize("meddle", [_remove_all, _remove_one, _append, _drop_log])
def test_drift_is_repaired(
    lake: Lake, publisher: DeltaPublisher, meddle: Callable[[DeltaTable], None]
) -> None:
    table = lake.table(A, lake.fragment(A, rows(1)), lake.fragment(A, rows(2)))
    publisher.publish(table)
    meddle(lake.open())
    publisher.publish(table)
    check(lake, rows(1, 2))


def test_foreign_columns_and_files_go(
    lake: Lake, publisher: DeltaPublisher, tmp_path: Path
) -> None:
    table = lake.table(A, lake.fragment(A, rows(1)))
    publisher.publish(table)
    stranger = Lake(tmp_path / "other")
    other = DeltaPublisher(str(stranger.root), idle_s=0.0)
    other.publish(stranger.table(AB, stranger.fragment(AB, [{"a": 9, "b": "x"}])))
    other.close()
    deltalake.write_deltalake(
        lake.location, stranger.open().to_pyarrow_table(), mode="append", schema_mode="merge"
    )
    assert len(read_by_deltalake(lake.location)) == 2
    publisher.publish(table)
    check(lake, rows(1))


def _partition(table: DeltaTable) -> None:
    rows = pa.table({"a": [7, 8], "b": ["p q", "r%s"]})
    deltalake.write_deltalake(
        table, rows, mode="overwrite", schema_mode="overwrite", partition_by=["b"]
    )


def _forbid(table: DeltaTable) -> None:
    deltalake.write_deltalake(table, pa.table({"a": [7], "b": ["z"]}), mode="append")
    table.alter.set_table_properties({"delta.appendOnly": "true"})


@pytest.mark.parametrize("meddle", [_partition, _forbid])
def test_a_table_that_was_made_into_another_kind_is_written_anew(
    lake: Lake, publisher: DeltaPublisher, meddle: Callable[[DeltaTable], None]
) -> None:
    expected = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    table = lake.table(AB, lake.fragment(AB, expected))
    publisher.publish(table)
    meddle(lake.open())
    version = publisher.publish(table)
    assert publisher.publish(table) == version
    check(lake, expected)


@pytest.mark.parametrize("place", ["publish-before-log", "publish-after-log"])
@pytest.mark.parametrize("step", ["create", "swap", "feed", "widen", "overwrite"])
def test_a_child_killed_around_the_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, place: str, step: str
) -> None:
    publisher = DeltaPublisher(lake.root.as_uri())
    one, foreign = lake.fragment(A, rows(1)), lake.fragment(A, rows(2), home="default/x/y")
    schema = {"widen": AB, "overwrite": struct(b="string", a="long")}.get(step, A)
    if step != "create":
        publisher.publish(lake.table(A, one))
        publisher.close()
    if step == "feed":
        lake.forget_feed()
    wanted = lake.table(schema, one, foreign, foreign, generation=2)
    monkeypatch.setenv("HEADGATE_FAILPOINTS", place)
    with pytest.raises(OSError, match="ended with -9"):
        publisher.publish(wanted)
    monkeypatch.delenv("HEADGATE_FAILPOINTS")
    version = publisher.publish(wanted)
    assert publisher.publish(wanted) == version == lake.open().version()
    expected = [
        {f["name"]: r["a"] if f["name"] == "a" else None for f in schema["fields"]}
        for r in rows(1, 2, 2)
    ]
    check(lake, expected)
    publisher.close()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (struct(), "at least one column"),
        (struct(a="void"), "void"),
        (struct(a="long", A="long"), "A"),
    ],
)
def test_what_no_table_can_hold_is_refused_in_words(
    lake: Lake, publisher: DeltaPublisher, schema: Any, message: str
) -> None:
    with pytest.raises(CannotPublish, match=message):
        publisher.publish(lake.table(schema))
    publisher.publish(lake.table(A))


def test_a_lost_file_is_a_storage_fault(lake: Lake, publisher: DeltaPublisher) -> None:
    foreign = lake.fragment(A, rows(1), home="default/x/y")
    (lake.root / foreign.files[0]["path"]).unlink()
    with pytest.raises(OSError, match="no object"):
        publisher.publish(lake.table(A, foreign))


def test_strange_column_names(lake: Lake, publisher: DeltaPublisher) -> None:
    row = {"a.b": 1, "a b": 2, "é🎉": 3, "a`b": 4}
    schema = struct(**dict.fromkeys(row, "long"))
    publisher.publish(lake.table(schema, lake.fragment(schema, [row])))
    check(lake, [row])


def test_the_parent_stays_without_deltalake_and_arrow() -> None:
    code = "import sys, controlplane.lake.publisher; print([m for m in ('deltalake', 'pyarrow') if m in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


# --- somebody else publishes by now ---------------------------------------------------------------


@pytest.mark.parametrize("is_there", [False, True], ids=["first", "later"])
def test_who_is_deposed_while_it_looks_at_a_table_does_not_commit(
    lake: Lake, publisher: DeltaPublisher, root: Path, is_there: bool
) -> None:
    one, two, three = (lake.fragment(A, rows(n)) for n in (1, 2, 3))
    if is_there:
        publisher.publish(lake.table(A, one, generation=1))
    late = lake.table(A, one, two, generation=2)

    def overtaken() -> None:
        publisher.publish(lake.table(A, one, two, three, generation=3))
        raise Deposed(LOOP, 1)

    deposed = DeltaPublisher(root.as_uri(), may_commit=overtaken)
    with pytest.raises(Deposed):
        deposed.publish(late)
    deposed.close()
    check(lake, rows(1, 2, 3))


def test_what_others_commit_between_looking_and_committing_is_looked_at_again(
    lake: Lake, root: Path
) -> None:
    one, two = (lake.fragment(A, rows(n)) for n in (1, 2))
    other = DeltaPublisher(root.as_uri())
    asked: list[int] = []

    def often() -> None:
        asked.append(len(asked))
        if len(asked) == 1:
            other.publish(lake.table(A, one, generation=1))

    publisher = DeltaPublisher(root.as_uri(), may_commit=often)
    assert publisher.publish(lake.table(A, one, two, generation=2)) == 1
    publisher.close()
    other.close()
    assert asked == [0, 1]
    check(lake, rows(1, 2))


def test_what_others_commit_after_the_last_question_is_not_gone_over(
    lake: Lake, root: Path
) -> None:
    """A table whose columns change is written anew: by who was paused just before, too."""
    other_order = struct(b="string", a="long")
    one, two = lake.fragment(A, rows(1)), lake.fragment(other_order, [{"a": 2, "b": "x"}])
    newer = lake.fragment(other_order, [{"a": 3, "b": "y"}])
    other = DeltaPublisher(root.as_uri())
    other.publish(lake.table(A, one))

    def paused() -> None:
        if read_by_deltalake(lake.location) != rows(1):
            raise Deposed(LOOP, 1)
        other.publish(lake.table(other_order, two, newer, generation=3))

    late = DeltaPublisher(root.as_uri(), may_commit=paused)
    with pytest.raises(Deposed):
        late.publish(lake.table(other_order, two, generation=2))
    late.close()
    other.close()
    check(lake, [{"a": 2, "b": "x"}, {"a": 3, "b": "y"}])

"""How generations of a dataset differ: only what differs is read, and what moved is not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from controlplane.cli import diff_views
from controlplane.core.errors import NotCompared
from controlplane.operations.inspect import data_diff
from controlplane.services.queries.adapter.row_comparison import RowComparer
from dataplane.contract.schemas import field_of, struct_of
from tests.unit.diffs.world import Kept, Recorded, rows


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@pytest.fixture
def compare(tmp_path: Path) -> RowComparer:
    return RowComparer(str(tmp_path), threading.Event())


def test_one_changed_partition_among_many_reads_its_files_alone(kept: Kept) -> None:
    many = {f"{n:05d}": rows((n, "a")) for n in range(10_000)}
    one = kept.commit(many, writes=False)
    other = kept.commit({**many, "04711": rows((4711, "b"))}, writes=False)
    recorded = Recorded()
    found = kept.diff(one, other, recorded, timeout_s=60)
    (files,) = recorded.asked
    assert (len(files.before), len(files.after)) == (1, 1)
    assert set(files.before) != set(files.after)
    assert (found["changed"], found["added"], found["removed"]) == (1, 0, 0)
    assert found["partitions"] == [
        {"partition": "04711", "state": "changed", "source": None, "before": 1, "after": 1}
    ]


def test_rows_are_read_only_where_they_are_asked_for(kept: Kept) -> None:
    one, other = kept.commit({"a": rows((1, "x"))}), kept.commit({"a": rows((1, "y"))})
    recorded = Recorded()
    assert kept.diff(one, other, recorded)["row_changes"] is None
    assert kept.diff(one, one, recorded, timeout_s=60)["state"] == "equal"
    assert recorded.asked == []


def test_what_is_in_another_partition_now_has_moved(kept: Kept) -> None:
    big, small = rows((1, "x"), (2, "y")), rows((3, "z"))
    one = kept.commit({"a": big, "b": small, "c": rows((9, "c"))})
    other = kept.commit({"a": small, "b": big, "d": rows((9, "c")), "e": rows((5, "e"))})
    recorded = Recorded()
    found = kept.diff(one, other, recorded, timeout_s=60)
    told = [(p["partition"], p["state"], p["source"]) for p in found["partitions"]]
    assert told == [
        ("a", "moved", "b"),
        ("b", "moved", "a"),
        ("d", "moved", "c"),
        ("e", "added", None),
    ]
    assert (found["moved"], found["added"], found["removed"], found["changed"]) == (3, 1, 0, 0)
    assert [(len(files.before), len(files.after)) for files in recorded.asked] == [(0, 1)]


def test_a_partition_that_moved_over_another_one_is_changed(kept: Kept) -> None:
    one = kept.commit({"a": rows((1, "x")), "b": rows((2, "y"))})
    other = kept.commit({"a": rows((2, "y"))})
    found = kept.diff(one, other, Recorded(), timeout_s=60)
    (partition,) = found["partitions"]
    assert (partition["partition"], partition["state"], partition["source"]) == (
        "a",
        "changed",
        "b",
    )


def test_partitions_come_in_pages(kept: Kept) -> None:
    one = kept.commit({})
    other = kept.commit({key: rows((1, key)) for key in "abcde"})
    keys, after = [], None
    for _ in range(3):
        page = kept.diff(one, other, Recorded(), after=after, limit=2)
        assert page["added"] == 5
        keys.append([p["partition"] for p in page["partitions"]])
        after = page["next"]
    assert (keys, after) == ([["a", "b"], ["c", "d"], ["e"]], None)


def test_one_partition_alone(kept: Kept) -> None:
    one, other = kept.commit({"a": rows((1, "x")), "b": rows((2, "x"))}), kept.commit({})
    recorded = Recorded()
    assert kept.diff(one, other, recorded, partition="b", timeout_s=60)["removed"] == 1
    assert [len(files.before) for files in recorded.asked] == [1]


def test_common_columns_are_compared_and_the_others_named(kept: Kept, compare: RowComparer) -> None:
    wide = struct_of(
        [field_of("k", "integer"), field_of("v", "string"), field_of("gone", "string")]
    )
    new = struct_of([field_of("k", "long"), field_of("v", "binary"), field_of("new", "string")])
    one = kept.commit(
        {"": ({"k": 1, "v": "a", "gone": "g"}, {"k": 2, "v": "b", "gone": "g"})}, wide
    )
    other = kept.commit({"": ({"k": 1, "v": b"a", "new": "n"},)}, new)
    found = kept.diff(one, other, compare, timeout_s=60)
    columns = found["columns"]
    assert (columns["added"], columns["removed"]) == (["new"], ["gone"])
    assert [(c["name"], c["compared_as"]) for c in columns["changed"]] == [
        ("k", "BIGINT"),
        ("v", None),
    ]
    changes = found["row_changes"]
    assert changes is not None
    assert changes["samples"] == {"added": [], "removed": [{"k": 2}]}


def test_a_key_has_to_be_a_column_of_both(kept: Kept) -> None:
    one, other = kept.commit({"": rows((1, "a"))}), kept.commit({"": rows((1, "b"))})
    with pytest.raises(NotCompared, match=r"has no column day on both sides; they share k, v"):
        kept.diff(one, other, Recorded(), timeout_s=60, key=("day",))


def test_more_bytes_than_a_comparison_may_read(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = kept.commit({"a": rows((1, "x"))}), kept.commit({"a": rows((1, "y"))})
    monkeypatch.setattr(data_diff, "MOST_BYTES", 1)  # each file has one
    recorded = Recorded()
    with pytest.raises(NotCompared, match="files of 2 bytes"):
        kept.diff(one, other, recorded, timeout_s=60)
    assert recorded.asked == []


def test_a_comparison_that_takes_too_long_is_ended(kept: Kept, compare: RowComparer) -> None:
    """Importing what it needs takes longer."""
    one, other = kept.commit({"": rows((1, "a"))}), kept.commit({"": rows((1, "b"))})
    with pytest.raises(
        NotCompared, match=r"took more than 0\.001 s; compare one partition, or allow more time"
    ):
        kept.diff(one, other, compare, timeout_s=0.001)


def test_a_service_that_ends_ends_comparisons(kept: Kept) -> None:
    stopping = threading.Event()
    stopping.set()
    one, other = kept.commit({"": rows((1, "a"))}), kept.commit({"": rows((1, "b"))})
    with pytest.raises(NotCompared, match="the service ends"):
        kept.diff(one, other, RowComparer(str(kept.folder), stopping), timeout_s=60)


def test_a_file_that_is_gone_is_named(kept: Kept, compare: RowComparer) -> None:
    one, other = kept.commit({"": rows((1, "a"))}), kept.commit({"": rows((1, "b"))}, writes=False)
    with pytest.raises(
        NotCompared, match=r"\.parquet is not there: the lake has lost it; `headgate fsck"
    ):
        kept.diff(one, other, compare, timeout_s=60)


def test_a_comment_says_it_in_one_line_and_folds_rows_away(
    kept: Kept, compare: RowComparer
) -> None:
    same = {f"d{n}": rows((n, "same")) for n in range(3)}
    one = kept.commit({**same, "x": rows((7, "a|b"), (8, "old"))})
    other = kept.commit({**same, "x": rows((7, "a|b"), (8, "new")), "y": rows((9, "more"))})
    by_rows = kept.diff(one, other, compare, timeout_s=60)
    assert diff_views.dataset_comment(by_rows).splitlines() == [
        "### Headgate: `shop.totals` partitions: 1 changed, 1 added; rows +2 -1",
        "",
        "<details><summary>Rows of shop.totals: +2 -1</summary>",
        "",
        "paired by the unchanged columns (k): 1 of 1 matched rows differ, 1 key added, 0 removed  ",
        "  v: 1 row changed  ",
        "  1 column equal  ",
        "",
        "| k | column | before | after |",
        "| --- | --- | --- | --- |",
        "| 8 | v | old | new |",
        "",
        "|  | k | v |",
        "| --- | --- | --- |",
        "| + | 9 | more |",
        "",
        "",
        "</details>",
        "",
        "<sub>From `main@1` to `main@2`.</sub>",
    ]
    by_key = kept.diff(one, other, compare, timeout_s=60, key=("k",))
    comment = diff_views.dataset_comment(by_key)
    assert "paired by k: 1 of 2 matched rows differ, 1 key added, 0 removed" in comment
    assert "| 8 | v | old | new |" in comment


def test_a_comment_of_branches_fits_and_escapes(kept: Kept, compare: RowComparer) -> None:
    one, other = (
        kept.commit({}),
        kept.commit({"": rows(*((n, "<script>|" * 5) for n in range(500)))}),
    )
    found = kept.diff(one, other, compare, timeout_s=60)
    comment = diff_views.dataset_comment(found)
    assert "<script>" not in comment
    assert len(comment) < diff_views.LONGEST_COMMENT
    assert found["row_changes"] is not None
    assert len(found["row_changes"]["samples"]["added"]) == 100
    assert "... 490 more rows" in comment.replace("\\", "")

"""Rows of two sets of Parquet files, compared as multisets by the process that does so."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dataplane.contract.schemas import Json, Schema, field_of, struct_of
from dataplane.fragments import row_diff, row_pairs
from dataplane.fragments.arrow import arrow_schema
from dataplane.fragments.rows_of_sides import RowDiffRequest, longest_value
from dataplane.task_failures import TaskFailure

MAP: Json = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}
INNER: Json = {"type": "struct", "fields": [field_of("x", "double"), field_of("m", MAP)]}
NESTED: Json = {"type": "array", "elementType": INNER, "containsNull": True}
PLAIN = struct_of([field_of("k", "long"), field_of("v", "string")])


class Files:
    """A folder with Parquet files in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        (folder / "scratch").mkdir()

    def put(self, schema: Schema, *rows: dict[str, Any]) -> str:
        self.number += 1
        name = f"{self.number}.parquet"
        pq.write_table(
            pa.Table.from_pylist(list(rows), schema=arrow_schema(schema)), self.folder / name
        )
        return name

    def request(
        self,
        schema: Schema,
        before: list[str],
        after: list[str],
        *key: str,
        column: str = "",
        **more: int,
    ) -> RowDiffRequest:
        return {
            "lake": str(self.folder),
            "before": before,
            "after": after,
            "schema": schema,
            "key": list(key),
            "column": column,
            "samples": more.get("samples", 100),
            "scratch": str(self.folder / "scratch"),
            "memory_bytes": more.get("memory_bytes", 100 << 20),
            "seconds": 60,
        }

    def compared(
        self,
        schema: Schema,
        before: list[str],
        after: list[str],
        *key: str,
        column: str = "",
        **more: int,
    ) -> Json:
        return row_diff.answer(self.request(schema, before, after, *key, column=column, **more))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def rows(*pairs: tuple[int | None, str | None]) -> list[dict[str, Any]]:
    return [{"k": k, "v": v} for k, v in pairs]


def test_rows_are_a_multiset(files: Files) -> None:
    before = files.put(PLAIN, *rows((1, "a"), (1, "a"), (1, "a"), (2, None), (None, None)))
    after = files.put(PLAIN, *rows((None, None), (2, None), (1, "a"), (3, "c")))
    found = files.compared(PLAIN, [before], [after])
    assert (found["added"], found["removed"], found["equal"]) == (1, 2, 3)
    assert found["samples"] == {"added": rows((3, "c")), "removed": rows((1, "a"), (1, "a"))}
    assert found["by_key"] is None


def test_rows_that_moved_to_another_file_are_equal(files: Files) -> None:
    one, two = files.put(PLAIN, *rows((1, "a"))), files.put(PLAIN, *rows((2, "b")))
    both = files.put(PLAIN, *rows((2, "b"), (1, "a")))
    found = files.compared(PLAIN, [one, two], [both])
    assert (found["added"], found["removed"], found["equal"]) == (0, 0, 2)


def test_a_side_without_files(files: Files) -> None:
    after = files.put(PLAIN, *rows((1, "a")))
    found = files.compared(PLAIN, [], [after], "k")
    assert (found["added"], found["removed"], found["by_key"]["added"]) == (1, 0, 1)


def test_a_key_pairs_rows_and_counts_columns(files: Files) -> None:
    schema = struct_of([*PLAIN["fields"], field_of("x", "double")])
    before = files.put(
        schema, {"k": 1, "v": "a", "x": 1.0}, {"k": 2, "v": "b", "x": None}, {"k": 3, "v": "c"}
    )
    after = files.put(
        schema, {"k": 1, "v": "A", "x": 2.0}, {"k": 2, "v": "b", "x": 5.0}, {"k": 4, "v": "d"}
    )
    found = files.compared(schema, [before], [after], "k")["by_key"]
    assert found["samples"] == [
        {
            "key": {"k": 1},
            "row": {"k": 1, "v": "A", "x": 2.0},
            "before": {"v": "a", "x": 1.0},
            "after": {"v": "A", "x": 2.0},
        },
        {
            "key": {"k": 2},
            "row": {"k": 2, "v": "b", "x": 5.0},
            "before": {"x": None},
            "after": {"x": 5.0},
        },
    ]
    assert found["unpaired"] == {
        "added": [{"k": 4, "v": "d", "x": None}],
        "removed": [{"k": 3, "v": "c", "x": None}],
    }
    del found["samples"], found["unpaired"]
    numbers = {"matched": 2, "changed": 2, "added": 1, "removed": 1, "ambiguous": 0}
    assert found == {
        **numbers,
        "key": ["k"],
        "is_inferred": False,
        "columns": {"v": 1, "x": 2},
        "equal_columns": 1,
    }


def test_keys_may_be_null_and_those_that_are_not_unique_pair_nothing(files: Files) -> None:
    before = files.put(PLAIN, *rows((None, "a"), (1, "x"), (1, "y")))
    after = files.put(PLAIN, *rows((None, "b"), (1, "z"), (1, "y")))
    found = files.compared(PLAIN, [before], [after], "k")
    assert (found["added"], found["removed"]) == (2, 2)
    by_key = found["by_key"]
    assert (by_key["matched"], by_key["changed"], by_key["ambiguous"]) == (1, 1, 1)
    assert [pair["key"] for pair in by_key["samples"]] == [{"k": None}]


WIDE = struct_of([*PLAIN["fields"], field_of("x", "long"), field_of("late", "boolean")])


def wide(*numbers: int, late: bool, x: int = 0) -> list[dict[str, Any]]:
    return [{"k": n, "v": f"v{n}", "x": n + x, "late": late} for n in numbers]


def test_without_a_key_unchanged_columns_pair_rows(files: Files) -> None:
    """Rows that are added and equal rows do not hinder it."""
    before = files.put(WIDE, *wide(*range(50), late=False), *wide(90, late=True))
    after = files.put(WIDE, *wide(*range(50), 70, late=True), *wide(90, late=True))
    by_key = files.compared(WIDE, [before], [after], samples=2)["by_key"]
    assert (by_key["key"], by_key["is_inferred"]) == (["k", "v", "x"], True)
    assert (by_key["columns"], by_key["equal_columns"]) == ({"late": 50}, 3)
    assert (by_key["changed"], by_key["added"], by_key["removed"]) == (50, 1, 0)
    assert by_key["samples"][1]["row"] == wide(1, late=True)[0]
    assert by_key["samples"][1]["before"] == {"late": False}
    assert by_key["unpaired"] == {"added": wide(70, late=True), "removed": []}


def test_rows_that_agree_in_all_unchanged_columns_pair_only_if_there_is_no_other(
    files: Files,
) -> None:
    before = files.put(PLAIN, *rows((1, "a"), (1, "b"), (2, "c")))
    after = files.put(PLAIN, *rows((1, "A"), (1, "B"), (2, "C")))
    by_key = files.compared(PLAIN, [before], [after])["by_key"]
    assert (by_key["key"], by_key["changed"], by_key["ambiguous"]) == (["k"], 1, 1)
    assert by_key["unpaired"]["added"] == rows((1, "A"), (1, "B"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([(1, "a")], [(2, "b")]),  # no column is unchanged
        ([(1, "a"), (2, "b")], [(1, "b"), (2, "a")]),  # all are, and no row is
        ([(1, "a")], [(1, "a"), (2, "b")]),  # nothing was removed
        ([(1, "a"), (1, "b")], [(1, "c"), (1, "d")]),  # nothing is the only one of its side
    ],
)
def test_rows_that_nothing_pairs_are_added_and_removed(
    files: Files, before: list[tuple[int, str]], after: list[tuple[int, str]]
) -> None:
    one, other = files.put(PLAIN, *rows(*before)), files.put(PLAIN, *rows(*after))
    assert files.compared(PLAIN, [one], [other])["by_key"] is None


def test_too_many_values_are_not_searched_for_unchanged_columns(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = (files.put(WIDE, *wide(*range(5), late=late)) for late in (False, True))
    monkeypatch.setattr(row_pairs, "MOST_VALUES", 40)  # 10 unequal rows of 4 columns
    assert files.compared(WIDE, [before], [after])["by_key"]["changed"] == 5
    monkeypatch.setattr(row_pairs, "MOST_VALUES", 39)
    without_pairs = files.compared(WIDE, [before], [after])
    assert (without_pairs["by_key"], without_pairs["added"]) == (None, 5)


def test_pairs_that_differ_in_one_column_are_chosen(files: Files) -> None:
    before = files.put(WIDE, *wide(*range(10), late=False))
    after = files.put(WIDE, *wide(*range(9), late=True), *wide(9, late=False, x=5))
    by_key = files.compared(WIDE, [before], [after], "k", column="x")["by_key"]
    assert [pair["key"] for pair in by_key["samples"]] == [{"k": 9}]
    assert by_key["columns"] == {"late": 9, "x": 1}
    unknown = files.compared(WIDE, [before], [after], "k", column="x; DROP")["by_key"]
    assert len(unknown["samples"]) == 10


def test_values_of_all_types(files: Files) -> None:
    schema = struct_of(
        [
            field_of("a b\"'", "timestamp"),
            field_of("d", "decimal(38,2)"),
            field_of("n", NESTED),
            field_of("f", "double"),
            field_of("y", "binary"),
            field_of("day", "date"),
        ]
    )
    same = {"a b\"'": 1, "d": Decimal("1.50"), "f": float("nan"), "y": b"\0", "day": -200_000}
    one = {**same, "n": [{"x": 0.0, "m": [("a", 1), ("b", 2)]}]}
    two = {**same, "n": [{"x": -0.0, "m": [("b", 2), ("a", 1)]}]}
    three = {**same, "n": [{"x": 0.0, "m": [("a", 2), ("b", 1)]}]}
    before = files.put(schema, one)
    assert files.compared(schema, [before], [files.put(schema, two)])["added"] == 0
    found = files.compared(schema, [before], [files.put(schema, three)], "d")
    (pair,) = found["by_key"]["samples"]
    assert pair["after"] == {"n": [{"x": 0.0, "m": {"a": 2, "b": 1}}]}
    assert found["samples"]["removed"] == [
        {
            "a b\"'": "1970-01-01T00:00:00.000001Z",
            "d": "1.50",
            "n": [{"x": 0.0, "m": {"a": 1, "b": 2}}],
            "f": "NaN",
            "y": "AA==",
            "day": "1422-06-03",
        }
    ]


def test_columns_that_cannot_be_compared_are_named(files: Files) -> None:
    schema = struct_of([*PLAIN["fields"], field_of("w", "void"), field_of("u", "variant")])
    before, after = files.put(PLAIN, *rows((1, "a"))), files.put(PLAIN, *rows((1, "b")))
    found = files.compared(schema, [before], [after])
    assert (found["added"], found["left_out"]) == (1, ["w", "u"])
    with pytest.raises(TaskFailure, match="no values to compare in u"):
        files.compared(schema, [before], [after], "u")


def test_files_of_a_narrower_type_are_read_under_the_wider_one(files: Files) -> None:
    narrow = struct_of([field_of("k", "integer")])
    before, after = (
        files.put(narrow, {"k": 1}),
        files.put(struct_of([field_of("k", "long")]), {"k": 1}),
    )
    assert files.compared(struct_of([field_of("k", "long")]), [before], [after])["equal"] == 1


def test_samples_are_few_and_long_values_are_cut(files: Files) -> None:
    after = files.put(PLAIN, *rows(*((n, "x" * 5_000) for n in range(50))))
    found = files.compared(PLAIN, [], [after], samples=3)
    assert found["added"] == 50
    assert [(row["k"], row["v"]) for row in found["samples"]["added"]] == [
        (n, "x" * 1_000 + "…") for n in range(3)
    ]


@pytest.mark.parametrize("columns", [1, 20, 100, 4_000])
def test_samples_have_a_bound_together(columns: int) -> None:
    longest = longest_value(columns, 100)
    assert 20 <= longest <= 1_000
    assert longest * columns * 4 * 100 <= max(8_000_000, 20 * columns * 4 * 100)


def test_a_file_that_is_gone_is_named(files: Files) -> None:
    with pytest.raises(TaskFailure, match=r"gone\.parquet is not there"):
        files.compared(PLAIN, [], ["gone.parquet"])


def test_more_than_fits_into_memory_is_spilled(files: Files) -> None:
    """In a process of its own, and without the packages that the control plane's image lacks."""
    text = pa.array([f"{n:064d}" * 4 for n in range(300_000)])
    for name, values in (("one", text), ("other", text[::-1])):
        pq.write_table(
            pa.table({"k": range(len(text)), "v": values}), files.folder / f"{name}.parquet"
        )
    request = files.request(
        PLAIN, ["one.parquet"], ["other.parquet"], samples=1, memory_bytes=150 << 20
    )
    code, found = in_process(request)
    assert (code, found.get("added"), found.get("removed")) == (0, 300_000, 300_000)
    code, found = in_process({**request, "memory_bytes": 20 << 20})
    reason = "comparing these rows takes more than 20 MB of memory"
    assert (code, found) == (row_diff.REFUSED, {"reason": reason, "kind": "user"})


def in_process(request: RowDiffRequest) -> tuple[int, Json]:
    script = "import sys; sys.modules.update(numpy=None, pandas=None, pyspark=None)\n"
    script += "import runpy; runpy.run_module('dataplane.fragments.row_diff', run_name='__main__')"
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)

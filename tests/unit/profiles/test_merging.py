"""The law of profiles: that of a whole is the merge of those of its parts, in any order and
grouping."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.contract.profiles import (
    KEPT_ROWS,
    WHOLE,
    ColumnCounts,
    Profile,
    Shape,
    merged,
    merged_sample,
    nothing,
    of_text,
    packed,
    unknown,
    unpacked,
)

VALUES: dict[Shape, st.SearchStrategy[Any]] = {
    "number": st.integers(-100, 100) | st.floats(-10, 10),
    "decimal": st.decimals(-10, 10, places=2).map(lambda one: format(one, "f")),
    "text": st.text(max_size=3),
    "time": st.integers(-(10**15), 10**15),
}
NAMES: list[str] = list(VALUES)
ROW = st.fixed_dictionaries({shape: st.none() | values for shape, values in VALUES.items()})
MARKED = st.tuples(st.integers(0, WHOLE - 1), ROW)


def profile(rows: list[tuple[int, dict[str, Any]]], below: int = WHOLE) -> Profile:
    """As a driver makes it of a file's rows, with their marks."""
    if not rows:
        return nothing()
    columns: dict[str, ColumnCounts] = {}
    for shape in VALUES:
        have = [row[shape] for _, row in rows if row[shape] is not None]
        order = sorted(have, key=float if shape == "decimal" else lambda one: one)
        columns[shape] = {
            "shape": shape,
            "nulls": len(rows) - len(have),
            "nulls_of": len(rows),
            "bounds": [order[0], order[-1]] if order else [],
            "bounds_of": len(rows),
        }
    kept = sorted((one for one in rows if one[0] < below), key=lambda one: one[0])
    values = {shape: [row[shape] for _, row in kept] for shape in VALUES}
    sample = {
        "of": len(rows),
        "below": below,
        "marks": [mark for mark, _ in kept],
        "values": values,
    }
    return {"rows": len(rows), "columns": columns, "sample": sample}  # type: ignore[typeddict-item]


DRAWN = st.lists(MARKED, max_size=12, unique_by=lambda one: one[0])


def comparable(found: Profile) -> Profile:
    """Equal numbers may be an int or a float."""
    return json.loads(json.dumps(found), parse_int=float)


@given(st.lists(st.tuples(DRAWN, st.integers(1, WHOLE)), max_size=5), st.randoms())
def test_a_whole_is_the_merge_of_its_parts_however_they_are_grouped(
    parts: list[Any], chance: Any
) -> None:
    made = [profile(rows, below) for rows, below in parts]
    whole = merged(made)
    cut = chance.randint(0, len(made))
    chance.shuffle(made)
    assert comparable(merged([merged(made[:cut]), merged(made[cut:])])) == comparable(merged(made))
    assert (merged(made)["rows"], merged(made)["columns"].keys()) == (
        whole["rows"],
        whole["columns"].keys(),
    )
    assert all(mark < whole["sample"]["below"] for mark in whole["sample"]["marks"])


@given(DRAWN, DRAWN)
def test_what_is_merged_is_what_would_have_been_made_of_all_rows(
    one: list[Any], other: list[Any]
) -> None:
    marks = {mark for mark, _ in one}
    other = [row for row in other if row[0] not in marks]
    if one or other:
        assert comparable(merged([profile(one), profile(other)])) == comparable(
            merged([profile(one + other)])
        )


@pytest.mark.parametrize(("parts", "group"), [(1, 1), (2, 1), (4, 1), (4, 2), (4, 3)])
def test_a_sample_stays_bounded_and_the_same_in_any_grouping(parts: int, group: int) -> None:
    many = KEPT_ROWS // 3
    rows = [((i * 2_654_435_761) % WHOLE, dict.fromkeys(NAMES)) for i in range(parts * many)]
    made = [profile(rows[i * many : (i + 1) * many]) for i in range(parts)]
    whole = merged(made)
    stepwise = merged(merged(made[i : i + group]) for i in range(0, parts, group))
    assert stepwise == whole
    assert len(whole["sample"]["marks"]) == min(KEPT_ROWS, parts * many)


def test_a_column_that_a_part_lacks_is_null_there_and_one_of_two_types_tells_nothing() -> None:
    have, lack = (
        profile([(1, {**dict.fromkeys(NAMES), "number": 5})]),
        profile([(2, dict.fromkeys(NAMES))]),
    )
    del lack["columns"]["number"], lack["sample"]["values"]["number"]
    found = merged([have, lack])
    assert found["columns"]["number"] == {
        "shape": "number",
        "nulls": 1,
        "nulls_of": 2,
        "bounds": [5, 5],
        "bounds_of": 2,
    }
    assert found["sample"]["values"]["number"] == [5, None]
    lack["columns"]["number"] = {**have["columns"]["number"], "shape": "text", "bounds": ["a", "b"]}
    mixed = merged([have, lack])["columns"]["number"]
    assert (mixed["shape"], mixed["bounds"], mixed["nulls"]) == ("mixed", [], 0)


def test_rows_of_one_mark_are_kept_together_or_not_at_all() -> None:
    marks = [*range(KEPT_ROWS - 1), WHOLE - 5, WHOLE - 5, WHOLE - 5]
    sample = profile([(mark, dict.fromkeys(NAMES)) for mark in marks])["sample"]
    result = merged_sample([sample])
    assert result["below"] == WHOLE - 5
    assert result["marks"] == list(range(KEPT_ROWS - 1))


def test_rows_without_a_profile_are_no_nulls() -> None:
    known = profile([(1, {**dict.fromkeys(NAMES), "number": 5}), (2, dict.fromkeys(NAMES))])
    result = merged([known, unknown(3)])
    assert (result["rows"], result["unprofiled"]) == (5, 3)
    assert result["columns"] == known["columns"]
    assert result["columns"]["number"]["nulls"] == 1


@given(DRAWN.filter(bool))
def test_what_is_packed_comes_back(rows: list[Any]) -> None:
    found = profile(rows)
    assert unpacked(packed(found), len(rows)) == found
    assert unpacked(packed(found), len(rows) + 1) == unknown(len(rows) + 1)


ONE = profile([(1, dict.fromkeys(NAMES))])
HOSTILE: list[Any] = [
    {**ONE, "columns": {"text": {**ONE["columns"]["text"], "bounds": ["a", "\ud800"]}}},
    {**ONE, "columns": {"number": {**ONE["columns"]["number"], "bounds": [1.0, float("nan")]}}},
    None,
    [],
    {},
    {"rows": 1},
    {**profile([(1, dict.fromkeys(NAMES))]), "columns": {"a": {"shape": "number"}}},
    {**profile([(1, dict.fromkeys(NAMES))]), "columns": []},
    {
        **nothing(),
        "rows": 1,
        "sample": {"of": 1, "below": WHOLE, "marks": [1, 2], "values": {"a": [1]}},
    },
]


def test_what_is_no_profile_tells_nothing_and_breaks_nothing() -> None:
    for value in HOSTILE:
        assert unpacked(zlib.compress(json.dumps(value).encode()), 1) == unknown(1), value
    deep = zlib.compress(b"[" * 100_000)
    assert (
        unpacked(deep, 1)
        == unpacked(b"x", 1)
        == unpacked(zlib.compress(b" " * (20 << 20)), 1)
        == unknown(1)
    )
    assert of_text("no base 64!") is None


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3)
    )
)
def test_a_spoilt_value_is_refused_or_merges(value: Any) -> None:
    spoilt = (
        profile(
            [
                (
                    1,
                    {
                        **dict.fromkeys(NAMES),
                        "number": value,
                        "text": value,
                        "decimal": value,
                        "time": value,
                    },
                )
            ]
        )
        if not isinstance(value, str | list)
        else {**nothing(), "rows": value}
    )
    merged([unpacked(packed(spoilt), 1), profile([(2, dict.fromkeys(NAMES))])])  # type: ignore[arg-type]

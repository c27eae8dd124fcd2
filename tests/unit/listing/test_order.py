"""Sorting in bounded memory is sorting."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dataplane.listing.external_sort import sorted_unique

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=40), st.integers(1, 7))
def test_records_come_once_and_in_order(records: list[tuple[str, str]], held: int) -> None:
    expected = sorted(set(records), key=lambda r: (r[0].encode(), r[1].encode()))
    assert list(sorted_unique(iter(records), held)) == expected


def test_who_stops_early_leaves_no_file_open() -> None:
    records = sorted_unique(((str(i), "") for i in range(10)), 3)
    assert next(records) == ("0", "")
    records.close()

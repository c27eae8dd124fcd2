"""Which slices are rolled up together: those of an hour that is over, as far as they follow each
other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from controlplane.core.model.roll_ups import (
    HOUR_MS,
    MOST,
    SliceSpan,
    change_groups,
    file_batches,
    is_span,
    spans_of,
    with_other_rows,
)
from controlplane.core.model.sources import SourcePartition
from controlplane.core.tree import Entry, EntryChange
from dataplane.connectors.kafka.kafka_listing import listed_at, object_of
from dataplane.connectors.kafka.kafka_server import OffsetBounds, Topic
from dataplane.contract.identity import Content
from dataplane.contract.source_objects import SourceObject, source_of

TOPIC = Topic("t", "A", ())
ROWS = 10  # of each slice
NOON = 12 * HOUR_MS


def slice_at(number: int, listed_ms: int, *objects: SourceObject) -> SourcePartition:
    """Ten offsets of one partition."""
    bounds = OffsetBounds(0, (number - 1) * ROWS, number * ROWS)
    found = objects or (object_of(TOPIC, bounds),)
    ranges = tuple(listed_at(listed_ms, source) for source in found)
    return SourcePartition(f"{number:012}", source_of(ranges, ()), ranges)


def slices(count: int, listed_ms: int = NOON - 1) -> list[SourcePartition]:
    return [slice_at(number, listed_ms) for number in range(1, count + 1)]


def lengths(parts: Sequence[SourcePartition], most: int = 1_000_000) -> list[int]:
    return [len(span.slices) for span in spans_of(parts, most, 2)]


def test_a_span_is_one_range() -> None:
    [span] = spans_of(slices(16), 1_000_000)
    assert span.key == "000000000001-000000000016"
    assert is_span(span.key)
    [source] = span.partition.objects
    whole = listed_at(NOON - 1, object_of(TOPIC, OffsetBounds(0, 0, 160)))
    assert source == whole
    assert span.partition.source == source_of([whole], ())
    assert "000000000016" < "000000000016-000000000020" < "000000000017"


def test_few_slices_stay_as_they_are() -> None:
    assert list(spans_of(slices(15), 1_000_000)) == []


def test_a_span_has_slices_of_one_hour() -> None:
    hours = [slice_at(n, NOON - HOUR_MS * (n <= 3)) for n in range(1, 7)]
    assert lengths(hours) == [3, 3]


@pytest.mark.parametrize(
    "between",
    [
        object_of(TOPIC, OffsetBounds(0, 31, 40)),  # a message is not in any slice
        object_of(Topic("t", "B", ()), OffsetBounds(0, 30, 40)),  # the topic was made again
        {
            **object_of(TOPIC, OffsetBounds(0, 30, 40)),
            "detail": {"topic": "A", "partition": 0, "first": 30, "end": 40, "schema": 2},
        },
        object_of(TOPIC, OffsetBounds(1, 30, 40)),
    ],
)
def test_a_span_ends_where_slices_do_not_follow(between: SourceObject) -> None:
    parts = [*slices(3), slice_at(4, NOON - 1, between), *slices(7)[4:]]
    assert lengths(parts)[0] == 3


def test_a_span_is_no_larger_than_a_slice_may_be() -> None:
    assert lengths(slices(7), most=30) == [3, 3]
    assert lengths(slices(MOST + 2)) == [MOST, 2]


def test_a_range_keeps_its_schema() -> None:
    ranges: list[SourceObject] = []
    for first in (0, 10):
        source = object_of(TOPIC, OffsetBounds(0, first, first + 10))
        detail = {**source["detail"], "schema": 7}
        version = f"{source['version']};schema:7"
        source |= {"version": version, "columns": ["a"], "detail": detail}
        ranges.append(source)
    span = SliceSpan(tuple(slice_at(n, 0, source) for n, source in enumerate(ranges, 1)))
    [whole] = span.partition.objects
    assert (whole["version"], whole["columns"]) == ("offsets:0-20;schema:7", ["a"])


def entry(key: str, rows: int) -> Entry:
    return Entry(key, key.encode(), Content(rows, rows, rows))


def test_changes_of_a_roll_up_are_one_group() -> None:
    first, second, span = f"{1:012}", f"{2:012}", f"{1:012}-{2:012}"
    changes = [
        EntryChange(first, entry(first, 1), None),
        EntryChange(span, None, entry(span, 3)),
        EntryChange(second, entry(second, 2), None),
        EntryChange(f"{3:012}", None, entry("3", 1)),
    ]
    assert [len(group) for group in change_groups(changes)] == [3, 1]
    assert list(with_other_rows(changes)) == changes[3:]
    other = EntryChange(span, None, entry(span, 4))
    assert list(with_other_rows([changes[0], other, *changes[2:]]))[1] == other
    back = [EntryChange(change.key, change.after, change.before) for change in changes]
    assert list(with_other_rows(back)) == back[3:]


def test_batches_have_a_bound_of_files() -> None:
    spans = [entry(f"{n:012}-{n + 99:012}", 1) for n in (1, 101, 201)]
    slices = [entry(f"{n:012}", 1) for n in range(301, 400)]
    batches = list(file_batches([*spans, *slices], 2 * MOST))
    assert [len(batch) for batch in batches] == [2, 100]
    assert [part for batch in batches for part in batch] == [*spans, *slices]

"""Slices of a topic: what comes next, and what is told where it is not there any more."""

from __future__ import annotations

from typing import Any

import pytest

from dataplane.connectors.kafka.kafka_listing import (
    FIRST_SLICE,
    ends_of,
    first_size,
    object_of,
    slices,
)
from dataplane.connectors.kafka.kafka_reader import together
from dataplane.connectors.kafka.kafka_server import OffsetBounds, Topic
from dataplane.contract.source_objects import SourceObject
from dataplane.task_failures import TaskFailure

TOPIC = Topic("t", "A", (OffsetBounds(0, 0, 7), OffsetBounds(1, 0, 3)))


def ranges(topic: Topic, ends: dict[int, int], most: int = 100) -> list[list[tuple[int, int]]]:
    return [[(b.first, b.end) for b in one] for one in slices(topic, ends, most)]


def ended(topic: Topic = TOPIC, *ends: int) -> list[SourceObject]:
    """The objects of a last slice that ended there."""
    return [object_of(topic, OffsetBounds(p, 0, end)) for p, end in enumerate(ends)]


def test_all_there_is_and_nothing_twice() -> None:
    assert ranges(TOPIC, {}) == [[(0, 7), (0, 3)]]
    assert ranges(TOPIC, {0: 7, 1: 3}) == []
    assert ranges(TOPIC, {0: 5, 1: 3}) == [[(5, 7), (3, 3)]]
    assert ranges(TOPIC, {0: 7}) == [[(7, 7), (0, 3)]], "a partition that the topic got later"


def test_much_is_several_slices() -> None:
    assert ranges(TOPIC, {}, most=3) == [[(0, 3), (0, 3)], [(3, 6), (3, 3)], [(6, 7), (3, 3)]]


def sizes(backlog: int, first: int, most: int) -> list[int]:
    topic = Topic("t", "A", (OffsetBounds(0, 0, backlog),))
    return [b.end - b.first for [b] in slices(topic, {}, most, first)]


def test_slices_of_a_stream_double_while_it_is_behind() -> None:
    assert sizes(7, first=10, most=40) == [7]
    assert sizes(100, first=10, most=40) == [10, 20, 40, 30]
    assert sizes(100, first=50, most=40) == [40, 40, 20]


def totals(backlogs: list[int], first: int, most: int = 500_000) -> list[int]:
    topic = Topic("t", "A", tuple(OffsetBounds(p, 0, end) for p, end in enumerate(backlogs)))
    return [sum(b.end - b.first for b in bounds) for bounds in slices(topic, {}, most, first)]


def test_the_first_slice_of_a_stream_is_bounded_over_all_partitions() -> None:
    assert totals([9_000] * 12, FIRST_SLICE) == [10_000, 20_000, 40_000, 38_000]
    assert totals([1] * 11 + [50_000], FIRST_SLICE) == [10_000, 20_000, 20_011], "one is behind"
    assert totals([5] * 12, first=7) == [7, 14, 28, 11], "fewer offsets than partitions"
    assert totals([100, 7], first=80, most=40) == [47, 40, 20], "each is within the slice as well"


@pytest.mark.parametrize(
    ("last", "first"), [(0, FIRST_SLICE), (FIRST_SLICE, 2 * FIRST_SLICE), (600_000, 1_200_000)]
)
def test_the_first_slice_is_twice_the_last_one(last: int, first: int) -> None:
    objects = [object_of(TOPIC, OffsetBounds(0, 5, 5 + last))]
    assert first_size({"within_s": 1.0}, objects) == first
    other = object_of(TOPIC, OffsetBounds(1, 0, 50_000))
    assert first_size({"within_s": 1.0}, [*objects, other]) == 2 * (last + 50_000)
    assert first_size({}, objects) is None, "not continuous: all that there is"


def test_the_last_slice_says_where_the_next_one_begins() -> None:
    assert ends_of(ended(TOPIC, 5, 3), TOPIC, accept=False) == {0: 5, 1: 3}
    assert ends_of([], TOPIC, accept=False) == {}


@pytest.mark.parametrize(
    ("topic", "condition", "accepted"),
    [
        (
            Topic("t", "A", (OffsetBounds(0, 6, 7), OffsetBounds(1, 0, 3))),
            "offsets-expired",
            [[(6, 7), (3, 3)]],
        ),
        (
            Topic("t", "A", (OffsetBounds(0, 0, 4), OffsetBounds(1, 0, 3))),
            "offsets-expired",
            [[(0, 4), (3, 3)]],
        ),
        (
            Topic("t", "B", (OffsetBounds(0, 0, 9), OffsetBounds(1, 0, 3))),
            "topic-recreated",
            [[(0, 9), (0, 3)]],
        ),
    ],
)
def test_what_is_gone_is_told_and_passed_over_only_if_accepted(
    topic: Topic, condition: str, accepted: Any
) -> None:
    last = ended(TOPIC, 5, 3)
    with pytest.raises(TaskFailure) as failure:
        ends_of(last, topic, accept=False)
    assert failure.value.condition == condition
    assert "--accept-deletes" in failure.value.message
    assert ranges(topic, dict(ends_of(last, topic, accept=True))) == accepted


def test_a_slice_is_named_by_the_topic_itself() -> None:
    mine, other = (object_of(Topic("t", id, ()), OffsetBounds(0, 1, 2)) for id in "AB")
    assert mine["uri"] != other["uri"]
    assert (mine["version"], mine["size"]) == ("offsets:1-2", 1)


def test_ranges_that_follow_each_other_are_read_as_one() -> None:
    def one(partition: int, first: int, end: int) -> dict[str, int]:
        return {"partition": partition, "first": first, "end": end}

    some = [one(0, 0, 5), one(1, 0, 2), one(0, 5, 9), one(0, 20, 30), one(1, 2, 3)]
    assert list(together(some)) == [{0: (0, 9), 1: (0, 3)}, {0: (20, 30)}]
    assert list(together([])) == []

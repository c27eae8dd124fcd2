"""What an address means, and what is told of one that means nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import BadAddress
from controlplane.core.model.addresses import (
    Address,
    Generation,
    Moment,
    moment_of,
    named,
    parse,
    time_of,
)
from controlplane.operations.inspect.json_views import instant

SEVEN = Moment(1_795_503_600_000)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("shop.totals", Address("shop.totals")),
        ("shop.totals@12", Address("shop.totals", Generation(12))),
        ("shop.totals@2026-11-24T07:00Z", Address("shop.totals", SEVEN)),
        ("shop.totals@2026-11-24 07:00:00Z", Address("shop.totals", SEVEN)),
        ("shop.totals@2026-11-24T08:30+01:30", Address("shop.totals", SEVEN)),
        ("shop.totals@2026-11-24T07:00:00.0009Z", Address("shop.totals", SEVEN)),
        ("shop@2026-11-24T07:00:00.012Z", Address("shop", Moment(SEVEN.milliseconds + 12))),
    ],
)
def test_an_address_is_a_name_and_a_generation_or_a_time(text: str, meant: Address) -> None:
    assert parse(text) == meant
    assert parse(str(meant)) == meant


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("shop.totals@", "shop.totals@12"),
        ("shop.totals@yesterday", "shop.totals@2026-11-24T07:00Z"),
        ("shop.totals@-1", "shop.totals@12"),
        ("shop.totals@1@2", "shop.totals@12"),
        ("shop.totals@٣", "shop.totals@12"),
        ("@12", "no name before @"),
        ("shop.totals@0", "numbered from 1"),
        ("shop.totals@" + "9" * 5_000, "numbered from 1"),
        ("shop.totals@2026-11-24", "2026-11-24T07:00Z"),
        ("shop.totals@2026-11-24T07:00", "add Z"),
        ("shop.totals@2026-13-24T07:00Z", "no such time"),
        ("shop.totals@0001-01-01T00:00+01:00", "no such time"),
    ],
)
def test_what_is_no_address_is_told_with_the_way_to_write_it(text: str, told: str) -> None:
    with pytest.raises(BadAddress) as refused:
        parse(text)
    assert told in str(refused.value)
    assert repr(text[:100]) in str(refused.value)


@given(st.floats(0, 4e9))
def test_a_time_that_an_answer_tells_is_not_before_what_it_is_told_of(at: float) -> None:
    found = parse(f"shop.totals@{instant(at)}").point
    assert isinstance(found, Moment)
    assert at < found.end <= at + 0.0011


def test_a_time_of_python_has_a_zone() -> None:
    assert moment_of(datetime(2026, 11, 24, 7, tzinfo=UTC)) == SEVEN
    with pytest.raises(BadAddress, match="zone"):
        moment_of(datetime(2026, 11, 24, 7))  # noqa: DTZ001  # which is what is refused


def test_which_state_is_meant_is_said_once() -> None:
    meant = [named("a.b@3"), named("a.b", generation=3), named("a.b", at="2026-11-24T07:00Z")]
    assert meant == [
        Address("a.b", Generation(3)),
        Address("a.b", Generation(3)),
        Address("a.b", SEVEN),
    ]
    for name, said in (
        ("a.b@3", {"generation": 3}),
        ("a.b", {"generation": 3, "at": "2026-11-24T07:00Z"}),
    ):
        with pytest.raises(BadAddress, match="twice"):
            named(name, **said)


def test_a_dataflow_has_times_and_no_generations() -> None:
    assert time_of("shop@2026-11-24T07:00Z") == ("shop", SEVEN)
    assert time_of("shop") == ("shop", None)
    with pytest.raises(BadAddress, match="shop@2026-11-24T07:00Z"):
        time_of("shop@3")

"""The clock of a query: found in the text, and replaced by a time that was given."""

from __future__ import annotations

import pytest

from controlplane.core import zone_periods
from controlplane.core.sql import SqlProblem, analyse, apply_edits, original_offset

AS_OF = 1_763_767_799.9876  # 2025-11-21 23:29:59.9876 UTC


@pytest.mark.parametrize(
    ("call", "zone", "literal"),
    [
        ("now()", "Asia/Tokyo", "TIMESTAMP_LTZ'2025-11-21 23:29:59.987Z'"),
        ("Current_Timestamp ( )", "UTC", "TIMESTAMP_LTZ'2025-11-21 23:29:59.987Z'"),
        ("current_date()", "UTC", "DATE'2025-11-21'"),
        ("curdate()", "Europe/Berlin", "DATE'2025-11-22'"),
        ("CURRENT_DATE()", "-00:30", "DATE'2025-11-21'"),
        ("localtimestamp()", "+00:31", "TIMESTAMP_NTZ'2025-11-22 00:00:59.987'"),
        ("unix_timestamp()", "Asia/Tokyo", "CAST(1763767799 AS BIGINT)"),
    ],
)
def test_a_literal_of_the_same_type_stands_for_it(call: str, zone: str, literal: str) -> None:
    query = analyse(f"SELECT a, {call} AS t FROM f WHERE b > {call} - 7")
    edits = query.clock_edits(AS_OF, zone)
    assert (
        apply_edits(query.text, edits) == f"SELECT a, {literal} AS t FROM f WHERE b > {literal} - 7"
    )
    assert original_offset(edits, apply_edits(query.text, edits).index(" - 7")) == query.text.index(
        " - 7"
    )
    assert [v.construct for v in query.volatile] == [f"{call.split('(')[0].strip().lower()}()"] * 2


def test_it_leaves_a_query_row_by_row() -> None:
    query = analyse("SELECT a, now() AS t FROM f WHERE d > current_date() - 7")
    assert query.mode("f").mode == "each"
    labels = query.label_edits("f")
    assert labels is not None
    assert apply_edits(query.text, [*labels, *query.clock_edits(0.0, "UTC")]).startswith(
        "SELECT a, TIMESTAMP_LTZ'1970-01-01 00:00:00.000Z' AS t, f._fragment FROM f WHERE d > DATE'1970-01-01'"
    )


@pytest.mark.parametrize(
    "text", ["SELECT t.now, 'now()', unix_timestamp(a) FROM f t --now()", "SELECT f.now() FROM f"]
)
def test_what_only_looks_like_it_stays(text: str) -> None:
    assert not analyse(text).reads_clock


@pytest.mark.parametrize(
    "text", ["'today'", "'NOW'", '"yesterday"', "' tomorrow Europe/Berlin '", "r'now'"]
)
def test_texts_that_may_be_read_as_a_time_are_volatile(text: str) -> None:
    """Spark does so wherever they are cast, be it by themselves."""
    query = analyse(f"SELECT a FROM f\nWHERE d > {text}")
    assert [(v.construct, v.line) for v in query.volatile] == [
        (f"{text}, which may be read as a time,", 2)
    ]
    assert not query.reads_clock


@pytest.mark.parametrize("text", ["'2013-01-01'", "'nowhere'", "'as of today'", "'epoch'"])
def test_texts_that_are_none(text: str) -> None:
    assert analyse(f"SELECT a FROM f WHERE d > {text}").volatile == ()


@pytest.mark.parametrize("name", ["current_date", "current_timestamp", "localtimestamp"])
def test_a_bare_name_may_be_a_column(name: str) -> None:
    with pytest.raises(SqlProblem) as caught:
        analyse(f"SELECT {name} FROM f")
    assert (caught.value.code, caught.value.hint) == ("not-supported", f"write {name}()")


@pytest.mark.parametrize(
    ("kind", "at", "zone", "period"),
    [
        # 00:59:59 on the day that has 25 hours
        ("daily", 1_761_433_199.0, "Europe/Berlin", "2025-10-26"),
        ("hourly", 1_761_435_000.0, "Europe/Berlin", "2025-10-26T01:00+02:00"),
        ("hourly", 1_761_437_000.0, "Europe/Berlin", "2025-10-26T02:00+02:00"),
        # The same hour of the clock again
        ("hourly", 1_761_440_600.0, "Europe/Berlin", "2025-10-26T02:00+01:00"),
        ("true", 0.0, "UTC", ""),
        ("", 0.0, "No/Where", ""),
    ],
)
def test_periods(kind: str, at: float, zone: str, period: str) -> None:
    assert zone_periods.period(kind, at, zone) == period


@pytest.mark.parametrize("name", ["No/Where", "+25:00", "../etc/passwd", ""])
def test_zones_that_are_none(name: str) -> None:
    with pytest.raises(zone_periods.UnknownZone):
        zone_periods.zone(name)

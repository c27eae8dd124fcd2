"""Inputs that are read beyond the granule of the output: their neighbours, what is refused, and what
is said about them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.core import sql
from controlplane.core.blueprint.key_columns import GRANULES
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Transform
from controlplane.core.errors import Problem
from controlplane.core.model.revisions import Revision
from controlplane.core.plan.transform.transform_jobs import logic_job
from dataplane.contract.key_values import granule_text
from dataplane.contract.reach import Reach, neighbours
from dataplane.contract.schemas import field_of, struct_of
from dataplane.contract.zones import UTC_NAMES

# --- neighbours of a key --------------------------------------------------------------------------

WIDTHS_S = {
    "minute": 60,
    "15 minutes": 900,
    "hour": 3_600,
    "day": 86_400,
    "week": 7 * 86_400,
    "month": 31 * 86_400,
    "quarter": 92 * 86_400,
    "year": 366 * 86_400,
}


@pytest.mark.parametrize("granule", GRANULES)
def test_neighbours_are_the_granules_of_moments_within_reach(granule: str) -> None:
    chance = random.Random(granule)
    width_s = WIDTHS_S[granule]
    for _ in range(60):
        moment = datetime(2019, 1, 1, tzinfo=UTC) + timedelta(seconds=chance.randrange(10**8))
        reach = Reach(
            *(chance.choice([0, 1, width_s, chance.randrange(3 * width_s)]) for _ in "ba")
        )
        own = granule_text(moment, granule, UTC)
        read = neighbours(f"at={own.replace(':', '%3A')}", [granule], reach)
        assert len(set(read)) == len(read)
        for _ in range(40):  # moments of the granule, and what they reach
            near = moment + timedelta(seconds=chance.randrange(-width_s, width_s))
            if granule_text(near, granule, UTC) != own:
                continue
            shift = timedelta(seconds=chance.randrange(-reach.before_s, reach.after_s + 1))
            text = granule_text(near + shift, granule, UTC).replace(":", "%3A")
            assert f"at={text}" in read
        for key in read:  # who is read by whom is one relation
            assert f"at={own.replace(':', '%3A')}" in neighbours(key, [granule], reach.reversed)


@pytest.mark.parametrize(
    ("key", "granules", "reach", "expected"),
    [
        ("at=2026-11-27T20", ["hour"], (3600, 0), ["at=2026-11-27T19", "at=2026-11-27T20"]),
        ("at=2026-11-27T20", ["hour"], (3601, 0), [f"at=2026-11-27T{h}" for h in (18, 19, 20)]),
        ("at=2026-11-27T23", ["hour"], (0, 1), ["at=2026-11-27T23", "at=2026-11-28T00"]),
        (
            "s=a%2Fb/at=2026-W01",
            ["", "week"],
            (1, 0),
            ["s=a%2Fb/at=2025-W52", "s=a%2Fb/at=2026-W01"],
        ),
        ("at=2024-Q1/s", ["quarter", ""], (1, 0), ["at=2023-Q4/s", "at=2024-Q1/s"]),
        ("at=2024-02", ["month"], (0, 29 * 86_400), ["at=2024-02", "at=2024-03"]),
        ("at", ["hour"], (3600, 3600), ["at"]),
        ("at=0001-01-01T00", ["hour"], (3600, 0), ["at=0001-01-01T00"]),
        ("at=9999-12-31T23", ["hour"], (0, 3600), ["at=9999-12-31T23"]),
        ("at=9999", ["year"], (1, 86_400), ["at=9998", "at=9999"]),
        ("at=+10000-01-01T00", ["hour"], (3600, 0), ["at=+10000-01-01T00"]),
    ],
)
def test_neighbours_by_example(
    key: str, granules: list[str], reach: tuple[int, int], expected: list[str]
) -> None:
    assert neighbours(key, granules, Reach(*reach)) == expected


# --- what the query says --------------------------------------------------------------------------

CLICKS = "SELECT c.at, c.ad FROM clicks c LEFT JOIN views v ON c.ad = v.ad AND "
DISTANCES = [
    ("c.at BETWEEN v.at AND v.at + INTERVAL 1 HOUR", (3600, 0)),
    (
        "v.at BETWEEN c.at - INTERVAL '90' MINUTE AND c.at + INTERVAL '1 day 2 hours'",
        (5400, 93_600),
    ),
    ("v.at > c.at - (INTERVAL 1 HOUR + INTERVAL 30 MINUTES) AND v.at < c.at", (5400, 0)),
    ("(v.at >= c.at - INTERVAL 2 HOUR AND c.at - INTERVAL 1 HOUR <= v.at)", (3600, None)),
    ("v.at = c.at", (0, 0)),
    ("v.at + INTERVAL 1 HOUR = c.at", (3600, -3600)),
    ("v.at >= c.at - INTERVAL 1 MONTH", (None, None)),
    ("NOT v.at >= c.at - INTERVAL 1 HOUR", (None, None)),
    ("(v.at >= c.at - INTERVAL 1 HOUR OR v.n = 1)", (None, None)),
    ("v.seen >= c.at - INTERVAL 1 HOUR", (None, None)),
    ("v.at >= CAST(c.at AS DATE) - INTERVAL 1 HOUR", (None, None)),
]


TIMES = {"clicks": "at", "views": "at", "convs": "at"}
OF_CLICKS = sql.TimeColumns(TIMES, ("clicks",))


@pytest.mark.parametrize(("condition", "expected"), DISTANCES)
def test_distances_that_conditions_allow(
    condition: str, expected: tuple[float | None, float | None]
) -> None:
    distance = sql.analyse(CLICKS + condition).time_distance("views", OF_CLICKS)
    assert (distance.before_s, distance.after_s) == expected


def test_an_input_that_is_read_twice_has_the_greater_distance() -> None:
    query = f"{CLICKS}{DISTANCES[0][0]} UNION ALL {CLICKS}{DISTANCES[1][0]}"
    distance = sql.analyse(query).time_distance("views", OF_CLICKS)
    assert (distance.before_s, distance.after_s) == (5400, 93_600)
    alone = f"{query} UNION ALL SELECT v.at, v.ad FROM views v"
    distance = sql.analyse(alone).time_distance("views", OF_CLICKS)
    assert (distance.before_s, distance.after_s) == (None, None)


NEAR = "BETWEEN {0}.at - INTERVAL 1 HOUR AND {0}.at"
VIEWS = f"JOIN views v ON c.ad = v.ad AND v.at {NEAR.format('c')}"
LATER = f"ON w.ad = v.ad AND w.at {NEAR.format('v')}"
CONDITIONS_OF_OTHERS = [
    # An hour before a row that is an hour before
    (f"{VIEWS} JOIN convs w {LATER}", "convs", (7200, 0)),
    (f"{VIEWS} JOIN views w {LATER}", "views", (7200, 0)),
    (f"LEFT {VIEWS} LEFT JOIN convs w {LATER}", "convs", (7200, 0)),
    (f"{VIEWS} JOIN convs w {LATER} AND w.at {NEAR.format('c')}", "convs", (3600, 0)),
    # An outer join keeps views without conversions, however far they are
    (f"JOIN views v ON c.ad = v.ad LEFT JOIN convs w {LATER}", "views", (None, None)),
    (
        f"JOIN views v ON c.ad = v.ad LEFT JOIN convs w ON v.at {NEAR.format('c')}",
        "views",
        (None, None),
    ),
    (f"JOIN views v ON c.ad = v.ad JOIN convs w ON v.at {NEAR.format('c')}", "views", (3600, 0)),
    (f"JOIN convs w LEFT {VIEWS} AND w.at {NEAR.format('v')}", "convs", (None, None)),
    (f"LEFT ANTI {VIEWS}", "views", (3600, 0)),
    (f"FULL {VIEWS}", "views", (None, None)),
]


@pytest.mark.parametrize(("joins", "name", "expected"), CONDITIONS_OF_OTHERS)
def test_distances_count_from_the_rows_that_make_partitions(
    joins: str, name: str, expected: tuple[float | None, float | None]
) -> None:
    query = sql.analyse(f"SELECT c.at FROM clicks c {joins}")
    distance = query.time_distance(name, OF_CLICKS)
    assert (distance.before_s, distance.after_s) == expected


def test_a_right_join_keeps_the_rows_of_its_right_side() -> None:
    query = sql.analyse(f"SELECT c.at FROM views v RIGHT JOIN clicks c ON v.at {NEAR.format('c')}")
    distance = query.time_distance("views", OF_CLICKS)
    assert (distance.before_s, distance.after_s) == (3600, 0)


def test_names_of_times_are_folded_as_the_session_folds_them() -> None:
    query = sql.analyse(f"SELECT c.at FROM clicks c JOIN views v ON v.AT {NEAR.format('c')}")
    assert query.time_distance("views", OF_CLICKS).before_s == 3600
    exact = sql.TimeColumns(TIMES, ("clicks",), case_sensitive=True)
    assert query.time_distance("views", exact).before_s is None


# --- blueprints -----------------------------------------------------------------------------------

BLUEPRINT = """\
dataflow: ads
timezone: UTC
components:
  clicks: {read: {connector: files, path: /c/*.parquet, format: parquet}}
  views: {read: {connector: files, path: /v/*.parquet, format: parquet}}
  attributed:
    transform:
      sql: QUERY
      partition_by: [{at: hour}]
      inputs:
        clicks: by
        views: {mode: by, reach: {before: 1h}}
"""
TEXT = BLUEPRINT.replace("QUERY", CLICKS + DISTANCES[0][0])


def _compiled(text: str) -> tuple[Transform | None, list[Problem]]:
    revision = Revision("main", "ads", 1, text, {}, "/work/ads.yaml", {}, "ann", "r", 0.0)
    compiled = compile_revisions([revision])
    if compiled.problems:
        return None, list(compiled.problems)
    node = compiled.require().nodes["ads.attributed"]
    assert node.is_transform
    return node, []


def attributed(text: str) -> Transform:
    node, problems = _compiled(text)
    assert node is not None, problems
    return node


def test_the_plan_says_what_is_read_and_whether_it_is_proven() -> None:
    slots = {slot.name: slot for slot in attributed(TEXT).slots}
    assert slots["clicks"].reach is None
    assert slots["views"].reach == Reach(3600, 0)
    covers = "reads 1 h 0 min before its granule, which covers the times of the conditions"
    assert covers in slots["views"].explanation
    unchecked = BLUEPRINT.replace("QUERY", CLICKS + "v.at < c.at")
    [views] = [slot for slot in attributed(unchecked).slots if slot.name == "views"]
    assert "as declared: no condition says how far before" in views.explanation


OVER = "row_number() OVER (PARTITION BY {} ORDER BY v.at) AS n"
NOT_COVERED = [
    # Rows of another ad are not read
    (
        TEXT.replace("c.ad = v.ad", "c.user = v.user").replace("[{at", "[ad, {at"),
        "no condition says that ad is equal",
    ),
    (
        TEXT.replace("SELECT c.at", f"SELECT {OVER.format('v.id')}, c.at"),
        "not proven that clicks can be read by it",
    ),
]


@pytest.mark.parametrize(("text", "words"), NOT_COVERED)
def test_what_is_not_shown_is_as_declared(text: str, words: str) -> None:
    [views] = [slot for slot in attributed(text).slots if slot.name == "views"]
    assert "as declared: " in views.explanation
    assert words in views.explanation


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("[{at", "[ad, {at"),
        TEXT.replace("SELECT c.at", f"SELECT {OVER.format('c.at')}, c.at"),
    ],
)
def test_equal_columns_and_windows_by_the_key_are_covered(text: str) -> None:
    [views] = [slot for slot in attributed(text).slots if slot.name == "views"]
    assert "which covers the times of the conditions" in views.explanation


LEADING = """clicks: {mode: by, reach: {after: 1h}}
        views: by
"""


@pytest.mark.parametrize("join", ["LEFT JOIN", "JOIN", "LEFT SEMI JOIN"])
def test_the_input_whose_key_is_the_output_s_has_no_reach(join: str) -> None:
    inputs = TEXT[TEXT.index("clicks: by") :]
    _, [problem] = _compiled(TEXT.replace(inputs, LEADING).replace("LEFT JOIN", join))
    assert (problem.code, problem.line) == ("conflicting-keys", 11)
    assert "the output's key is that of clicks" in problem.message


def test_a_driver_that_knows_no_reach_has_no_key_to_read_by() -> None:
    node = attributed(TEXT)
    schema = struct_of([field_of("at", "timestamp")])
    job = logic_job(node, {"clicks": schema, "views": schema})
    own, views = job["inputs"]["clicks"], job["inputs"]["views"]
    assert views["mode"] == "by"
    assert "key" not in views  # which a driver of former releases reads rows by
    assert views["reach"] == {"key": own["key"], "before_s": 3600, "after_s": 0}


def test_another_reach_is_another_logic() -> None:
    logics = {
        attributed(TEXT.replace("before: 1h", reach)).logic
        for reach in ("before: 1h", "before: 2h", "before: 1h, after: 1h", "before: 3600s")
    }
    assert len(logics) == 3


WRONG = [
    ("before: 1h", "before: 59m", "reach-too-short", "up to 1 h 0 min before"),
    ("before: 1h", "after: 1h", "reach-too-short", "the reach is none"),
    ("before: 1h", "before: 2000h", "invalid-value", "2,000 granules"),
    ("reach: {before: 1h}", "reach: {}", "missing-key", "'before' or 'after'"),
    ("before: 1h", "before: soon", "invalid-duration", "soon"),
    ("mode: by, reach", "mode: all, reach", "conflicting-keys", "mode `by`"),
    ("{at: hour}", "at", "missing-key", "one granule of time"),
    ("clicks: by", "clicks: all", "conflicting-keys", "all inputs by key have a reach"),
    ("timezone: UTC", "timezone: Europe/Berlin", "not-supported", "Europe/Berlin"),
]


@pytest.mark.parametrize("name", UTC_NAMES)
def test_utc_has_several_names(name: str) -> None:
    assert attributed(TEXT.replace("timezone: UTC", f"timezone: {name}"))


@pytest.mark.parametrize(("old", "new", "code", "words"), WRONG)
def test_what_means_nothing_is_refused(old: str, new: str, code: str, words: str) -> None:
    _, [problem] = _compiled(TEXT.replace(old, new))
    assert problem.code == code
    assert words in problem.message

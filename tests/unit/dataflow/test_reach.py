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
from dataplane.contract.key_values import granule_text
from dataplane.contract.reach import Reach, neighbours

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


@pytest.mark.parametrize(("condition", "expected"), DISTANCES)
def test_distances_that_conditions_allow(
    condition: str, expected: tuple[float | None, float | None]
) -> None:
    columns = {"clicks": "at", "views": "at"}
    distance = sql.analyse(CLICKS + condition).time_distance("views", columns)
    assert (distance.before_s, distance.after_s) == expected


def test_an_input_that_is_read_twice_has_the_greater_distance() -> None:
    query = f"{CLICKS}{DISTANCES[0][0]} UNION ALL {CLICKS}{DISTANCES[1][0]}"
    columns = {"clicks": "at", "views": "at"}
    distance = sql.analyse(query).time_distance("views", columns)
    assert (distance.before_s, distance.after_s) == (5400, 93_600)
    alone = f"{query} UNION ALL SELECT v.at, v.ad FROM views v"
    distance = sql.analyse(alone).time_distance("views", columns)
    assert (distance.before_s, distance.after_s) == (None, None)


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
    assert "reads 1 h 0 min before its granule, which covers" in slots["views"].explanation
    unchecked = BLUEPRINT.replace("QUERY", CLICKS + "v.at < c.at")
    [views] = [slot for slot in attributed(unchecked).slots if slot.name == "views"]
    assert "as declared: no condition says how far before" in views.explanation


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


@pytest.mark.parametrize(("old", "new", "code", "words"), WRONG)
def test_what_means_nothing_is_refused(old: str, new: str, code: str, words: str) -> None:
    _, [problem] = _compiled(TEXT.replace(old, new))
    assert problem.code == code
    assert words in problem.message

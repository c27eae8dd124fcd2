"""The steps that give versions of two times: the valid time, and when it was known.

Events of one key and one valid time are versions of a key of their own (`_closed`). A version holds
from its valid time until the next valid time of its key that is known. So it is cut where a valid
time in between becomes known.

    _points     each valid time of a key, and since when it is known
    _cuts       each version once more from where a later valid time becomes known
    _bounded    with the end of its valid time (`_until`): the least of those known by then
    _spans      runs of equal ends
    _placed, _known    with where the next run begins

Example: `a` from January on (known at 1), then `b` from March on (known at 2):

    a  valid January to ever   known 1 to 2
    a  valid January to March  known from 2
    b  valid March to ever     known from 2
"""

from __future__ import annotations

from collections.abc import Sequence

BEFORE = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
AFTER = "RANGE BETWEEN 1 FOLLOWING AND 1 FOLLOWING"


def steps(keys: Sequence[str], valid: str) -> list[tuple[str, str]]:
    """Steps after `_closed`; columns are quoted. The last one has `_start`, `_until`, `_after`,
    `_next`, `_last`, `_is_live` and `_fault`."""
    key, version = ", ".join(keys), ", ".join([*keys, valid, "_version"])
    carried = (
        "max(_fault) AS _fault, bool_and(_is_live) AS _is_live, max(_last) AS _last,\n"
        "  max(_next) AS _next"
    )
    points = f"SELECT {key}, {valid}, min(_from) AS _since\nFROM _closed GROUP BY {key}, {valid}"
    bounded = (
        f"SELECT *, min(_later) OVER (PARTITION BY {version} ORDER BY _start {BEFORE}) AS _until\n"
        "FROM _cuts"
    )
    spans = (
        f"SELECT {version}, _until, min(_start) AS _start, {carried}\n"
        f"FROM _bounded GROUP BY {version}, _until"
    )
    placed = (
        f"SELECT *, rank() OVER (PARTITION BY {version} ORDER BY _start) AS _place\nFROM _spans"
    )
    following = (
        f"SELECT *, min(_start) OVER (PARTITION BY {version} ORDER BY _place {AFTER}) AS _after\n"
        "FROM _placed"
    )
    return [
        ("_points", points),
        ("_cuts", _cuts(keys, valid, carried)),
        ("_bounded", bounded),
        ("_spans", spans),
        ("_placed", placed),
        ("_known", following),
    ]


def _cuts(keys: Sequence[str], valid: str, carried: str) -> str:
    """A version meets its own point, so it has a row from its beginning. One with a fault meets
    all points of its key, so it is not passed over."""
    version = ", ".join(f"v.{name}" for name in [*keys, valid, "_version"])
    same_key = " AND ".join(f"v.{name} <=> p.{name}" for name in keys)
    return (
        f"SELECT {version}, greatest(_from, _since) AS _start,\n"
        f"  min(CASE WHEN p.{valid} > v.{valid} THEN p.{valid} END) AS _later,\n"
        f"  {carried}\n"
        f"FROM _closed AS v JOIN _points AS p\n"
        f"  ON {same_key} AND (_fault IS NOT NULL\n"
        f"    OR p.{valid} >= v.{valid} AND (_next IS NULL OR _since < _next))\n"
        f"GROUP BY {version}, greatest(_from, _since)"
    )


def selected_span(valid: str) -> str:
    """The four columns of times, from the last step."""
    return (
        f"{valid} AS _valid_from, _until AS _valid_to,\n"
        "  _start AS _known_from, least(_after, _next) AS _known_to"
    )

"""Profiles: what the rows of fragments look like, column by column, in a form that merges.

A profile has two parts. Counts and bounds are sums and extremes over whole files. The sample is
rows that were drawn by marks: each row has a random number below 2^32, and those below a threshold
are kept. So the sample of a union is made of the samples of its parts (threshold sampling:
Duffield, Lund, Thorup, J. ACM 54, 2007, with equal weights), in any order and grouping.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, cast

from dataplane.contract import sketches

Mode: TypeAlias = Literal["off", "basic", "full"]
Shape: TypeAlias = Literal[
    "number", "decimal", "text", "flag", "date", "time", "size", "other", "mixed"
]
# Of its shape: numbers; decimals as texts; days and microseconds since 1970; how long bytes, lists
# and maps are. A text that is cut is a list of what is left and its length. NaN and infinities are
# texts.
Value: TypeAlias = int | float | str | bool | list[Any] | None

WHOLE = 1 << 32  # the threshold of a sample that has all rows
KEPT_ROWS = 10_240  # of a merged sample
KEPT_VALUES = 32 * KEPT_ROWS  # likewise: of all columns together
LONGEST = 64  # characters of a text that are kept
USUAL_VALUE = 40  # characters of one in JSON, at most, unless most are long texts
MOST_COLUMNS = 256
LARGEST_BYTES = 16 << 20  # of a profile as JSON
LARGEST_STORED = 4 << 20  # of a packed one
REPORTED = 3_000_000  # characters of all profiles of an attempt, whose report may have 5 MB
# Made once: a fifth of the time
_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_INTEGERS = ("byte", "short", "integer", "long", "float", "double")
_SHAPES: Mapping[str, Shape] = {
    "string": "text",
    "boolean": "flag",
    "date": "date",
    "timestamp": "time",
    "timestamp_ntz": "time",
    "binary": "size",
    "array": "size",
    "map": "size",
    **cast("Mapping[str, Shape]", dict.fromkeys(_INTEGERS, "number")),
}


class ColumnCounts(TypedDict):
    """`nulls` in `nulls_of` rows. `bounds`: the least and the greatest value of `bounds_of` rows,
    or empty where these have none. `distinct`: a sketch of all values of the column
    (`contract.sketches`), where one was made."""

    shape: Shape
    nulls: int
    nulls_of: int
    bounds: list[Value]
    bounds_of: int
    distinct: NotRequired[str]


class Sample(TypedDict):
    """Rows out of `of` rows: those whose marks are `below`. All lists are in the order of the
    marks."""

    of: int
    below: int
    marks: list[int]
    values: dict[str, list[Value]]


class Profile(TypedDict):
    rows: int
    columns: dict[str, ColumnCounts]
    sample: Sample
    unprofiled: NotRequired[int]  # rows of fragments of which nothing is known


def shape_of(kind: object) -> Shape:
    """The shape of a column's type in Spark's JSON."""
    name = kind if isinstance(kind, str) else str(cast("Mapping[str, object]", kind).get("type"))
    return "decimal" if name.startswith("decimal(") else _SHAPES.get(name, "other")


def no_sample() -> Sample:
    return {"of": 0, "below": WHOLE, "marks": [], "values": {}}


def nothing() -> Profile:
    """The profile of no rows."""
    return {"rows": 0, "columns": {}, "sample": no_sample()}


def unknown(rows: int) -> Profile:
    """The profile of rows whose number alone is known."""
    return {**nothing(), "rows": rows, "unprofiled": rows}


# --- merging ------------------------------------------------------------------------------------


def merged(parts: Iterable[Profile]) -> Profile:
    """The profile of all rows of the parts."""
    every = list(parts)
    names = sorted({name for part in every for name in part["columns"]})
    profile: Profile = {
        "rows": sum(part["rows"] for part in every),
        "columns": {name: _column([_of(part, name) for part in every]) for name in names},
        "sample": merged_sample([part["sample"] for part in every]),
    }
    missing = sum(part.get("unprofiled", 0) for part in every)
    return {**profile, "unprofiled": missing} if missing else profile


def _of(profile: Profile, name: str) -> ColumnCounts | int:
    """The number of rows that lack the column, where it has none: these read as NULL."""
    return profile["columns"].get(name) or profile["rows"] - profile.get("unprofiled", 0)


def _column(parts: Sequence[ColumnCounts | int]) -> ColumnCounts:
    have = [part for part in parts if not isinstance(part, int)]
    lacking = sum(part for part in parts if isinstance(part, int))
    shapes = {part["shape"] for part in have}
    shape: Shape = shapes.pop() if len(shapes) == 1 else "mixed"
    counts: ColumnCounts = {
        "shape": shape,
        "nulls": sum(part["nulls"] for part in have) + lacking,
        "nulls_of": sum(part["nulls_of"] for part in have) + lacking,
        "bounds": [],
        "bounds_of": 0,
    }
    if shape == "mixed":
        return counts
    sketch = _distinct(have)
    if sketch is not None:
        counts["distinct"] = sketch
    bounds = _bounds(shape, [end for part in have for end in part["bounds"]])
    return {
        **counts,
        "bounds": bounds,
        "bounds_of": sum(part["bounds_of"] for part in have) + lacking,
    }


def _distinct(parts: Sequence[ColumnCounts]) -> str | None:
    """None where a part has values and no sketch of them."""
    bodies: list[str] = []
    for part in parts:
        if "distinct" in part:
            bodies.append(part["distinct"])
        elif part["nulls"] != part["nulls_of"] or not part["nulls_of"]:
            return None
    return sketches.merged(bodies) if bodies else None


def _bounds(shape: Shape, ends: list[Value]) -> list[Value]:
    if not ends:
        return []
    key = _as_decimal if shape == "decimal" else _as_is
    return [min(ends, key=key), max(ends, key=key)]


def _as_is(value: Value) -> Any:
    return value


def _as_decimal(value: Value) -> Any:
    return Decimal(str(value))


def merged_sample(parts: Sequence[Sample]) -> Sample:
    """Rows below all thresholds; of more than are kept, those with the least marks."""
    below = min((part["below"] for part in parts), default=WHOLE)
    names = sorted({name for part in parts for name in part["values"]})
    most = max(1, min(KEPT_ROWS, KEPT_VALUES // max(1, len(names))))
    rows = [
        (mark, p, i)
        for p, part in enumerate(parts)
        for i, mark in enumerate(part["marks"])
        if mark < below
    ]
    rows.sort()
    if len(rows) > most:
        below = rows[most][0]
        rows = [row for row in rows[:most] if row[0] < below]
    values: dict[str, list[Value]] = {}
    for name in names:
        lists = [part["values"].get(name) for part in parts]
        values[name] = [None if (of := lists[p]) is None else of[i] for _, p, i in rows]
    of_rows = sum(part["of"] for part in parts)
    return {"of": of_rows, "below": below, "marks": [mark for mark, *_ in rows], "values": values}


# --- in one report --------------------------------------------------------------------------------


def fitting(every: Sequence[Profile], most: int = REPORTED) -> list[Profile]:
    """The same profiles, as far as one report can carry them: sketches of the columns with the most
    values are left out, and samples are thinned alike."""
    half = most // 2
    left_out = _dearest(every, half)
    values = sum(
        len(profile["sample"]["marks"]) * (len(profile["sample"]["values"]) + 1)
        for profile in every
    )
    is_small = values * USUAL_VALUE <= half  # to encode all would take as long as to pack it
    size = 0 if is_small else sum(len(_ENCODE(profile["sample"])) for profile in every)
    share = min(1.0, half / size) if size else 1.0
    return [_lighter(profile, left_out, share) for profile in every]


def _dearest(every: Sequence[Profile], most: int) -> frozenset[str]:
    """Columns whose sketches do not fit. Those of few values come first, of all profiles alike."""
    sizes: dict[str, int] = {}
    for profile in every:
        for name, column in profile["columns"].items():
            sizes[name] = sizes.get(name, 0) + len(column.get("distinct", ""))
    left = most
    dear: set[str] = set()
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        left -= sizes[name]
        if left < 0:
            dear.add(name)
    return frozenset(dear)


def _lighter(profile: Profile, without: frozenset[str], share: float) -> Profile:
    columns = {
        name: _without_sketch(column) if name in without else column
        for name, column in profile["columns"].items()
    }
    sample = profile["sample"]
    if share < 1.0:
        below = max(1, int(sample["below"] * share))
        count = sum(mark < below for mark in sample["marks"])
        values = {name: of[:count] for name, of in sample["values"].items()}
        sample = {**sample, "below": below, "marks": sample["marks"][:count], "values": values}
    return {**profile, "columns": columns, "sample": sample}


def _without_sketch(column: ColumnCounts) -> ColumnCounts:
    return cast("ColumnCounts", {key: value for key, value in column.items() if key != "distinct"})


# --- as bytes -------------------------------------------------------------------------------------


def packed(profile: Profile) -> bytes:
    """As it is stored. Level 1: the others take longer than all the rest of a profile. With 32 KiB
    of memory and not 256, which would take four times as long to be cleared as a small profile
    takes to be packed."""
    packer = zlib.compressobj(1, zlib.DEFLATED, wbits=12, memLevel=5)
    return packer.compress(_ENCODE(profile).encode()) + packer.flush()


def unpacked(body: bytes, rows: int) -> Profile:
    """The profile of a fragment, or of a tree node, with so many rows. An invalid body, as a driver
    may have sent it, counts as a missing one."""
    try:
        inflated = zlib.decompressobj()
        text = inflated.decompress(body, LARGEST_BYTES)
        profile = cast("Profile", json.loads(text))
        _check(profile)
        if profile["rows"] == rows:
            return profile
    except (
        zlib.error,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ):
        pass
    return unknown(rows)


def _check(profile: Profile) -> None:
    """ValueError, TypeError or KeyError for what merging would not find."""
    numbers = [
        profile["rows"],
        profile.get("unprofiled", 0),
        profile["sample"]["of"],
        profile["sample"]["below"],
    ]
    for name, column in profile["columns"].items():
        numbers += [column["nulls"], column["nulls_of"], column["bounds_of"]]
        if "distinct" in column:
            sketches.count(column["distinct"])
        of_shape = ACCEPTED[column["shape"]]
        values = profile["sample"]["values"].get(name, [])
        if len(column["bounds"]) not in (0, 2) or not all(map(of_shape, column["bounds"])):
            raise ValueError(name)
        if not all(cell is None or column["shape"] == "mixed" or of_shape(cell) for cell in values):
            raise ValueError(name)
    marks = profile["sample"]["marks"]
    if not all(_is_count(number) for number in (*numbers, *marks)):
        raise ValueError("no count")
    if any(len(of) != len(marks) for of in profile["sample"]["values"].values()):
        raise ValueError("values without marks")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 62


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    return _is_whole(value) or value in ("NaN", "Infinity", "-Infinity")


def _is_text(value: object) -> bool:
    """Half a surrogate pair cannot be encoded: no answer could contain it."""
    if isinstance(value, list):
        return (
            len(value) == 2
            and isinstance(value[0], str)
            and _is_text(value[0])
            and _is_count(value[1])
        )
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


def _is_decimal(value: object) -> bool:
    return (
        isinstance(value, str)
        and len(value) <= LONGEST
        and re.fullmatch(r"-?[0-9]+([.][0-9]+)?", value) is not None
    )


ACCEPTED: Mapping[Shape, Callable[[object], bool]] = {
    "number": _is_number,
    "decimal": _is_decimal,
    "text": _is_text,
    "flag": lambda value: isinstance(value, bool),
    "date": _is_whole,
    "time": _is_whole,
    "size": _is_whole,
    "other": _is_whole,
    "mixed": lambda _: False,
}


def as_text(profile: Profile) -> str:
    """As it is reported."""
    return base64.b64encode(packed(profile)).decode()


def of_text(text: str) -> bytes | None:
    """The bytes to store for a reported profile; None for a text that is no profile, or too
    long."""
    try:
        body = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return body if len(body) <= LARGEST_STORED else None

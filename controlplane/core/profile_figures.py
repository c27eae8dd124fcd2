"""Figures from profiles: shares, distinct values, extremes, histograms, and whether a column moved.
Pure.

Counts and extremes of whole files are exact. Distinct values are of all rows; all else is of a
sample, and says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from math import isfinite, sqrt
from typing import Final, cast

from controlplane.core.model.answers.profiles import (
    Basis,
    ColumnProfile,
    ColumnValues,
    Histogram,
    Lengths,
    ProfileValue,
    TopValue,
)
from controlplane.core.model.json_values import JsonValue
from dataplane.contract import sketches
from dataplane.contract.profiles import WHOLE, ColumnCounts, Profile, Shape, Value, shape_of
from dataplane.contract.schemas import Field

TOP: Final = 10
BINS: Final = 20
FREQUENT: Final = 5  # times that a value is in a sample, before it is listed as frequent
MOVED_SHARE: Final = 0.05  # of NULLs: points between the shares of two generations
MOVED_DEVIATIONS: Final = 0.5  # between the means, in standard deviations before
FEWEST: Final = 30  # values on both sides, for their means to be compared
_NUMERIC: Final = ("number", "decimal", "date", "time")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def column(profile: Profile, field: Field, *, with_values: bool) -> ColumnProfile:
    """One column of the dataset as its schema has it."""
    name, shape = field["name"], shape_of(field["type"])
    counts = profile["columns"].get(name)
    is_whole = _is_whole(profile)
    sampled = _sampled(profile, name, counts, shape)
    profiled = profile["rows"] - profile.get("unprofiled", 0)
    nulls, basis = _nulls(counts, sampled, profiled, is_whole=is_whole)
    distinct, distinct_basis = _distinct(profile, counts, sampled, shape, profiled)
    answer: ColumnProfile = {
        "name": name,
        "type": cast("JsonValue", field["type"]),
        "nulls": nulls,
        "null_share": None if nulls is None or not profiled else nulls / profiled,
        "nulls_basis": basis,
        "distinct": distinct,
        "distinct_basis": distinct_basis,
    }
    if with_values:
        answer["values"] = _values(shape, counts, sampled or (), profiled, is_whole=is_whole)
    return answer


def _is_whole(profile: Profile) -> bool:
    sample = profile["sample"]
    return sample["below"] == WHOLE and sample["of"] == profile["rows"] == len(sample["marks"])


def _sampled(
    profile: Profile, name: str, counts: ColumnCounts | None, shape: Shape
) -> Sequence[Value] | None:
    """None where nothing is known of its values: fragments have the column with several types, or
    there is no row."""
    if counts is not None and counts["shape"] != shape:
        return None
    return profile["sample"]["values"].get(name) or None


def _nulls(
    counts: ColumnCounts | None, sampled: Sequence[Value] | None, rows: int, *, is_whole: bool
) -> tuple[int | None, Basis]:
    if counts is not None and counts["nulls_of"] == rows > 0:
        return counts["nulls"], "exact"
    if sampled is None:
        return None, "unknown"
    share = sum(value is None for value in sampled) / len(sampled)
    return round(share * rows), "exact" if is_whole else "sampled"


def _distinct(
    profile: Profile,
    counts: ColumnCounts | None,
    sampled: Sequence[Value] | None,
    shape: Shape,
    rows: int,
) -> tuple[int | None, Basis]:
    """Counts all rows where every part has a sketch; else the sample."""
    is_known = not profile.get("unprofiled", 0)
    if counts is not None and counts["shape"] == shape:
        sketch = counts.get("distinct")
        if sketch is not None:
            return sketches.count(sketch), "exact" if is_known and sketches.is_exact(
                sketch
            ) else "estimated"
        if shape == "flag" and counts["bounds_of"] == rows > 0:
            return len(set(counts["bounds"])), "exact" if is_known else "estimated"
    if sampled is None:
        return None, "unknown"
    return _of_sample(sampled, rows), "exact" if _is_whole(profile) else "sampled"


def _of_sample(sampled: Sequence[Value], rows: int) -> int:
    """As PostgreSQL's ANALYZE estimates it: Haas and Stokes, IBM Research Report RJ 10025, 1995,
    the estimator Duj1."""
    counts = Counter(_key(value) for value in sampled if value is not None)
    n, once = sum(counts.values()), sum(count == 1 for count in counts.values())
    if not n:
        return 0
    of = max(n, round(rows * n / len(sampled)))
    return min(of, max(len(counts), round(n * len(counts) / (n - once + once * n / of))))


def _key(value: Value) -> object:
    return tuple(value) if isinstance(value, list) else value


# --- values ---------------------------------------------------------------------------------------


def _values(
    shape: Shape,
    counts: ColumnCounts | None,
    sampled: Sequence[Value],
    rows: int,
    *,
    is_whole: bool,
) -> ColumnValues:
    numbers = sorted(_numbers(shape, sampled))
    low, high, basis = _ends(shape, counts, sampled, rows, is_whole=is_whole)
    mean, deviation = _moments(numbers) if shape in ("number", "decimal") else (None, None)
    return {
        "min": low,
        "max": high,
        "bounds": basis,
        "mean": mean,
        "deviation": deviation,
        "quartiles": [
            _shown(shape, numbers[int(at * (len(numbers) - 1))]) for at in (0.25, 0.5, 0.75)
        ]
        if numbers
        else [],
        "top": list(_top(shape, sampled, rows, is_whole=is_whole)),
        "histogram": _histogram(shape, numbers),
        "lengths": _lengths(shape, sampled),
        "nan": sum(value == "NaN" for value in sampled) / len(sampled)
        if shape == "number" and sampled
        else 0.0,
    }


def _numbers(shape: Shape, sampled: Sequence[Value]) -> Iterator[float]:
    if shape not in _NUMERIC:
        return
    for value in sampled:
        if value is not None and not isinstance(value, list) and isfinite(number := float(value)):
            yield number


def _ends(
    shape: Shape,
    counts: ColumnCounts | None,
    sampled: Sequence[Value],
    rows: int,
    *,
    is_whole: bool,
) -> tuple[ProfileValue, ProfileValue, Basis]:
    if shape in ("size", "other"):
        return None, None, "unknown"
    if counts is not None and counts["shape"] == shape and counts["bounds_of"] == rows > 0:
        ends = counts["bounds"] or [None, None]
        return _shown(shape, ends[0]), _shown(shape, ends[1]), "exact"
    have = [
        value
        for value in sampled
        if value is not None and value not in ("NaN", "Infinity", "-Infinity")
    ]
    if not have:
        return None, None, "unknown"
    order = sorted(have, key=lambda value: _text(value) if shape == "text" else float(value))  # type: ignore[arg-type]
    return _shown(shape, order[0]), _shown(shape, order[-1]), "exact" if is_whole else "sampled"


def _moments(numbers: Sequence[float]) -> tuple[float | None, float | None]:
    if not numbers:
        return None, None
    mean = sum(numbers) / len(numbers)
    return mean, sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers))


def _top(
    shape: Shape, sampled: Sequence[Value], rows: int, *, is_whole: bool
) -> Iterator[TopValue]:
    """In a sample, a value that came a few times says nothing."""
    if shape in ("size", "other"):
        return
    counts = Counter(_key(sample) for sample in sampled if sample is not None)
    order = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    for value, count in order[:TOP]:
        if count >= FREQUENT or is_whole:
            shown = _shown(shape, list(value) if isinstance(value, tuple) else value)  # type: ignore[arg-type]
            yield {
                "value": shown,
                "share": count / len(sampled),
                "rows": round(rows * count / len(sampled)),
            }


def _histogram(shape: Shape, numbers: Sequence[float]) -> Histogram | None:
    if len(numbers) < 2 or numbers[0] == numbers[-1]:
        return None
    low, width = numbers[0], (numbers[-1] - numbers[0]) / BINS
    if not isfinite(width) or width == 0:
        return None
    counts = [0] * BINS
    for number in numbers:
        counts[min(BINS - 1, int((number - low) / width))] += 1
    return {"edges": [_shown(shape, low + i * width) for i in range(BINS + 1)], "counts": counts}


def _lengths(shape: Shape, sampled: Sequence[Value]) -> Lengths | None:
    if shape not in ("text", "size"):
        return None
    lengths = [_length(value) for value in sampled if value is not None]
    return (
        {"min": min(lengths), "mean": sum(lengths) / len(lengths), "max": max(lengths)}
        if lengths
        else None
    )


def _length(value: Value) -> int:
    if isinstance(value, list):
        return int(value[1])
    return len(value) if isinstance(value, str) else int(value or 0)


def _text(value: Value) -> str:
    return str(value[0]) if isinstance(value, list) else str(value)


def _shown(shape: Shape, value: Value) -> ProfileValue:
    if isinstance(value, list):
        return f"{value[0]}…"
    if value is None or shape not in ("date", "time"):
        return value
    try:
        if shape == "date":
            return (date(1970, 1, 1) + timedelta(days=int(value))).isoformat()
        return (_EPOCH + timedelta(microseconds=int(value))).replace(tzinfo=None).isoformat(sep=" ")
    except OverflowError:  # a year that Python has no date of
        return int(value)


# --- from one generation to the next ----------------------------------------------------------------


def moved(before: ColumnProfile | None, after: ColumnProfile, few: int) -> list[str]:
    """The changes in words; `few`: the values of the smaller of the two samples."""
    if before is None:
        return ["new column"]
    differences: list[str] = []
    if before["type"] != after["type"]:
        differences.append("another type")
    old, new = before["null_share"], after["null_share"]
    if old is not None and new is not None and abs(new - old) > MOVED_SHARE:
        differences.append(f"NULL from {old:.0%} to {new:.0%}")
    then, now = before.get("values"), after.get("values")
    if then and now and few >= FEWEST:
        differences += _moved_mean(then, now)
    return differences


def _moved_mean(then: ColumnValues, now: ColumnValues) -> list[str]:
    mean, deviation = then["mean"], then["deviation"]
    if mean is None or deviation is None or now["mean"] is None:
        return []
    if abs(now["mean"] - mean) <= MOVED_DEVIATIONS * deviation or now["mean"] == mean:
        return []
    return [f"mean from {mean:.4g} to {now['mean']:.4g}"]

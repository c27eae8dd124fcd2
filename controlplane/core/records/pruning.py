"""Files and partitions without a row that fits a condition, by facts that are known without opening
them.

A bound that is not known for certain leaves a file in: a wrong one would lose rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Final, TypeAlias

from controlplane.core.records.literals import date_text, instant_text, local_text
from dataplane.contract.keys import column_texts, encode_segment
from dataplane.contract.predicates import (
    Column,
    Condition,
    PlainValue,
    PredicateCall,
    PredicateValue,
)
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema, Type

_INTEGERS: Final = ("byte", "short", "integer", "long")
BUCKET: Final = "bucket"  # in place of a granule: the text is a number unrelated to the value
_NEGATED: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_TURNED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_MONTH: Final = re.compile(r"(\d{4})-(\d\d)", re.ASCII)
_YEAR: Final = re.compile(r"\d{4}", re.ASCII)
# Types of which each value has one text in keys
_CERTAIN_TEXTS: Final = (*_INTEGERS, "string", "date", "boolean")


@dataclass(frozen=True, slots=True)
class ColumnBounds:
    """Bounds of one column in some rows. `low` and `high` hold all values that are not NULL; None:
    not known. `may_be_null`, `may_have_value`: False only where it is certain. `texts`: bounds of
    the values as partition keys write them."""

    low: PlainValue | None = None
    high: PlainValue | None = None
    may_be_null: bool = True
    may_have_value: bool = True
    texts: KeyTexts | None = None


@dataclass(frozen=True, slots=True)
class KeyTexts:
    """The least and the greatest text of a column in a range of partition keys. Keys are ordered by
    such texts, and not by values: `10` comes before `9`. `end` stands behind a text in a key."""

    low: str
    high: str
    end: str

    def may_be(self, constant: PlainValue | None) -> bool:
        """Whether a key of the range may have this value. True where its text is not certain."""
        if isinstance(constant, bool):
            text = str(constant).lower()
        elif isinstance(constant, int | str):
            text = str(constant)
        elif isinstance(constant, date) and not isinstance(constant, datetime):
            text = constant.isoformat()
        else:
            return True
        try:
            segment = encode_segment(text)
        except UnicodeEncodeError:  # half a surrogate pair, which is in no key
            return False
        return self.low <= segment + self.end <= self.high


@dataclass(frozen=True, slots=True)
class PartitionKeyPart:
    """One part of partition keys: its name there, the column whose values it holds, and its
    granule."""

    name: str
    column: str
    granule: str = ""


_UNKNOWN: Final = ColumnBounds()
Known: TypeAlias = Callable[[str], ColumnBounds]
"""What is known of a column."""


def may_match(condition: Condition, bounds_of: Known, *, negated: bool = False) -> bool:
    """Whether there may be a row for which the condition (`negated`: its contrary) is true."""
    match condition:
        case PredicateCall("not", (inner,)):
            return may_match(inner, bounds_of, negated=not negated)
        case PredicateCall("and" | "or" as name, parts):
            is_all = (name == "and") is not negated
            matches = (may_match(part, bounds_of, negated=negated) for part in parts)
            return all(matches) if is_all else any(matches)
        case PredicateCall("is_null", (Column((name,)),)):
            bounds = bounds_of(name)
            return bounds.may_have_value if negated else bounds.may_be_null
        case Column((name,)):
            return _compares(
                bounds_of(name), "eq", PredicateValue("boolean", "false" if negated else "true")
            )
        case PredicateCall("eq" | "ne" | "lt" | "le" | "gt" | "ge" as name, (left, right)):
            operator = _NEGATED[name] if negated else name
            return _comparison(operator, left, right, bounds_of)
        case PredicateCall("in", (Column((name,)), *values)) if not negated:
            bounds = bounds_of(name)
            return any(
                _compares(bounds, "eq", value)
                for value in values
                if isinstance(value, PredicateValue)
            )
        case PredicateCall("like", (Column((name,)), PredicateValue(_, pattern))) if not negated:
            return _has_prefix(bounds_of(name), re.split(r"[%_\\]", pattern, maxsplit=1)[0])
    return True


def _comparison(operator: str, left: Condition, right: Condition, bounds_of: Known) -> bool:
    match left, right:
        case Column((name,)), PredicateValue():
            return _compares(bounds_of(name), operator, right)
        case PredicateValue(), Column((name,)):
            return _compares(bounds_of(name), _TURNED[operator], left)
    return True


def _compares(bounds: ColumnBounds, operator: str, value: PredicateValue) -> bool:
    if not bounds.may_have_value:
        return False
    constant, low, high = value.plain, bounds.low, bounds.high
    if operator == "eq" and bounds.texts is not None and not bounds.texts.may_be(constant):
        return False
    if low is None or high is None or constant is None:
        return True
    if isinstance(constant, float):
        if not all(isinstance(end, int) for end in (low, high)):
            return True
        low, high = float(low), float(high)  # type: ignore[arg-type]  # as the rows are compared
    match operator:
        case "eq":
            return bool(low <= constant <= high)  # type: ignore[operator]  # both are of the column's type
        case "ne":
            return not low == constant == high
        case "lt":
            return bool(low < constant)  # type: ignore[operator]
        case "le":
            return bool(low <= constant)  # type: ignore[operator]
        case "gt":
            return bool(high > constant)  # type: ignore[operator]
    return bool(high >= constant)  # type: ignore[operator]


def _has_prefix(bounds: ColumnBounds, prefix: str) -> bool:
    if not bounds.may_have_value:
        return False
    low, high = bounds.low, bounds.high
    if not isinstance(low, str) or not isinstance(high, str):
        return True
    return low[: len(prefix)] <= prefix <= high[: len(prefix)]


# --- bounds from a file's statistics


def comparisons(condition: Condition) -> int:
    """How many there are in a condition, at most: what it costs to look at one file."""
    match condition:
        case PredicateCall("in", arguments):
            return len(arguments)
        case PredicateCall(_, arguments):
            return 1 + sum(map(comparisons, arguments))
    return 0


def of_file(entry: FileEntry, schema: Schema) -> Known:
    """By the least and greatest values that Delta's statistics have, under the dataset's schema of
    now."""
    types = _types(schema)
    stats = entry["stats"]
    lows, highs, nulls = (
        _mapping(stats.get(key)) for key in ("minValues", "maxValues", "nullCount")
    )

    def bounds_of(column: str) -> ColumnBounds:
        count, kind = nulls.get(column), types.get(column)
        number = count if isinstance(count, int) else None
        low, high = (_bound(ends.get(column), kind) for ends in (lows, highs))
        return ColumnBounds(
            low=None if high is None else low,
            high=None if low is None else high,
            may_be_null=number is None or number > 0,
            may_have_value=number is None or number < entry["rows"],
        )

    return bounds_of


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _types(schema: Schema) -> dict[str, Type]:
    return {field["name"]: field["type"] for field in schema["fields"]}


def _bound(value: object, kind: Type | None) -> PlainValue | None:
    """None where a file that was written under another type has another kind of value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in _INTEGERS:
        return value if isinstance(value, int) and is_number else None
    if isinstance(kind, str) and kind.startswith("decimal("):
        return Decimal(repr(value)) if is_number else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    return _text_bound(value, kind) if isinstance(value, str) else None


def _text_bound(text: str, kind: Type | None) -> PlainValue | None:
    match kind:
        case "string":
            return text
        case "date":
            normalised = date_text(text)
            return None if normalised is None else date.fromisoformat(normalised)
        case "timestamp" | "timestamp_ntz":
            normalised = instant_text(text) if kind == "timestamp" else local_text(text)
            return None if normalised is None else datetime.fromisoformat(normalised)
    return None


# --- bounds from a partition's key


def of_keys(parts: Sequence[PartitionKeyPart], schema: Schema) -> Callable[[str], Known]:
    """By the texts of columns in a key. A key of another form gives no bounds."""
    types = _types(schema)
    names = [encode_segment(part.name) for part in parts]

    def of_key(key: str) -> Known:
        if [segment.partition("=")[0] for segment in key.split("/")] != names:
            return lambda _: _UNKNOWN
        bounds = {
            part.column: _of_text(text, part.granule, _simple(types.get(part.column)))
            for part, text in zip(parts, column_texts(key), strict=True)
        }
        return lambda column: bounds.get(column, _UNKNOWN)

    return of_key


def _simple(kind: Type | None) -> str | None:
    """The type of a column whose values stand in keys: no others do."""
    return kind if isinstance(kind, str) else None


@lru_cache(maxsize=10_000)  # keys share their first texts, and partitions of many days their last
def _of_text(text: str | None, granule: str, kind: str | None) -> ColumnBounds:
    if text is None:
        return ColumnBounds(may_have_value=False)
    if granule == BUCKET:
        return ColumnBounds(may_be_null=False)
    low, high = (
        _span(text, kind) if granule and kind == "date" else (_value(text, kind, granule),) * 2
    )
    return ColumnBounds(low, high, may_be_null=False)


def _value(text: str, kind: Type | None, granule: str) -> PlainValue | None:
    if granule:
        return None
    if kind in _INTEGERS:
        return int(text) if re.fullmatch(r"-?\d{1,20}", text, re.ASCII) else None
    if isinstance(kind, str) and kind.startswith("decimal("):
        return Decimal(text) if re.fullmatch(r"-?\d{1,40}(\.\d{1,40})?", text, re.ASCII) else None
    if kind == "boolean":
        return {"true": True, "false": False}.get(text)
    return _text_bound(text, kind) if kind in ("string", "date") else None


def _span(text: str, kind: Type | None) -> tuple[PlainValue | None, PlainValue | None]:
    """The days of a day, month or year."""
    day = _text_bound(text, kind)
    if day is not None:
        return day, day
    if month := _MONTH.fullmatch(text):
        return _until(int(month[1]), int(month[2]), 1)
    return _until(int(text), 1, 12) if _YEAR.fullmatch(text) else (None, None)


def _until(year: int, month: int, months: int) -> tuple[date | None, date | None]:
    after = year * 12 + month - 1 + months
    try:
        return date(year, month, 1), date(after // 12, after % 12 + 1, 1) - timedelta(days=1)
    except ValueError:
        return None, None


# --- bounds from a range of keys


def of_key_range(low: str, high: str, parts: Sequence[PartitionKeyPart], schema: Schema) -> Known:
    """By the texts of columns in the keys from `low` to `high`, both included. All of these keys
    have the parts in common that stand before the first part that differs."""
    types = _types(schema)
    bounds: dict[str, ColumnBounds] = {}
    # The least text after a key counts as the key
    least_segments = low.removesuffix("\0").split("/")
    for i, (part, least, greatest) in enumerate(
        zip(parts, least_segments, high.split("/"), strict=False)
    ):
        form = f"{encode_segment(part.name)}="
        # NULL, or keys of another form
        if not least.startswith(form) or not greatest.startswith(form):
            break
        ends = least.removeprefix(form), greatest.removeprefix(form)
        kind = types.get(part.column)
        if least != greatest:
            end = "/" if i < len(parts) - 1 else ""
            bounds[part.column] = _of_texts(*ends, end, part.granule, kind)
            break
        [text] = column_texts(least)
        bounds[part.column] = _of_text(text, part.granule, _simple(kind))
    return lambda column: bounds.get(column, _UNKNOWN)


def _of_texts(least: str, greatest: str, end: str, granule: str, kind: Type | None) -> ColumnBounds:
    """The bounds by texts that differ, as keys write them; `end` stands behind them."""
    if granule == BUCKET:
        return ColumnBounds(may_be_null=False)
    texts = None
    if not granule and kind in _CERTAIN_TEXTS:
        texts = KeyTexts(least + end, greatest + end, end)
    if kind != "date":
        return ColumnBounds(may_be_null=False, texts=texts)
    # Days, months and years are ordered as their texts are
    first, _ = _span(least, kind)
    _, last = _span(greatest, kind)
    if first is None or last is None:
        return ColumnBounds(may_be_null=False, texts=texts)
    return ColumnBounds(first, last, may_be_null=False, texts=texts)

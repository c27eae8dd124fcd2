"""Content of rows as SQL: two 64-bit hashes of a row, summed, that differ wherever two rows differ.

`xxhash64` alone skips NULLs, takes -0.0 for 0.0, confuses nested arrays and refuses maps: so bits
say which columns are NULL or a negative zero, and nested values are hashed as JSON, with maps as
sorted lists of entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dataplane.contract.identity import MASK, Content, schema_id
from dataplane.contract.results import LABEL
from dataplane.contract.schemas import Json, Schema

Type: TypeAlias = str | Mapping[str, Json]

FLOATS = ("float", "double")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_SIMPLE = frozenset(
    ("byte", "short", "integer", "long", *FLOATS, "string", "binary", "boolean", *_TIMES),
)
BITS = 60  # of a bigint
# odd, and near 2^32 by the golden ratio: multiples of it are spread evenly (Knuth, 6.4)
SPREADING = 0x9E3779B1
# Of variants, which fragments of earlier releases hold, the bytes of files are read: neither the
# hash nor JSON tells their types apart.
_VARIANT_FIELDS: list[Json] = [
    {"name": n, "type": "binary", "nullable": True, "metadata": {}} for n in ("value", "metadata")
]
_JSON_OPTIONS = """map('ignoreNullFields', 'false', 'timeZone', 'UTC',
 'timestampFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", 'timestampNTZFormat', "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")"""


def unsupported(kind: Type) -> str | None:
    """The first type in `kind` that no fragment may hold, such as intervals, and variants, which no
    table can have that other engines read; None if all is well."""
    if isinstance(kind, str):
        return None if kind in _SIMPLE or kind.startswith("decimal(") else kind
    return next(filter(None, map(unsupported, _children(kind))), None)


def _children(kind: Mapping[str, Json]) -> Sequence[Type]:
    match kind["type"]:
        case "struct":
            return [f["type"] for f in kind["fields"]]
        case "array":
            return [kind["elementType"]]
        case "map":
            return [kind["keyType"], kind["valueType"]]
        case other:
            return [str(other)]


def physical(kind: Json) -> Json:
    """The type, or whole schema, under which written files are read to be hashed."""
    if kind == "variant":
        return {"type": "struct", "fields": _VARIANT_FIELDS}
    if not isinstance(kind, Mapping):
        return kind
    fields = (
        {"fields": [{**f, "type": physical(f["type"])} for f in kind["fields"]]}
        if "fields" in kind
        else {}
    )
    inner = {k: physical(kind[k]) for k in ("elementType", "keyType", "valueType") if k in kind}
    return {**kind, **fields, **inner}


def quoted(name: str) -> str:
    """A column's name as an SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def row_hash(schema: Schema, seed: int) -> str:
    """SQL text of the 64-bit hash of a row of `physical(schema)`.

    The columns are part of it: partitions of a dataset may lack different ones, which its readers
    see as NULL.
    """
    fields = schema["fields"]
    parts = [
        f"{seed}L",
        f"{columns_id(schema)}L",
        *_null_bits(fields),
        *_zero_bits(fields),
        *map(_hashable, fields),
    ]
    return f"xxhash64({', '.join(parts)})"


def half_sums(name: str) -> tuple[str, str]:
    """SQL text of the sums of both halves of the hashes in a column."""
    return f"sum({name} & 4294967295L)", f"sum(shiftrightunsigned({name}, 32))"


HALVES = ", ".join((*half_sums("h0"), *half_sums("h1")))


def columns_id(schema: Schema) -> int:
    """A number that identifies the columns: half as wide as it could be, since the smallest long
    has no literal."""
    return int.from_bytes(schema_id(schema)[:8]) >> 1


def _null_bits(fields: Sequence[Json]) -> Iterator[str]:
    return _bits([f"{quoted(f['name'])} IS NULL" for f in fields])


def _zero_bits(fields: Sequence[Json]) -> Iterator[str]:
    columns = [quoted(f["name"]) for f in fields if f["type"] in FLOATS]
    return _bits([f"{c} = 0 AND CAST({c} AS STRING) = '-0.0'" for c in columns])


def _bits(conditions: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(conditions), BITS):
        chunk = conditions[start : start + BITS]
        yield " + ".join(f"IF({c}, {1 << i}L, 0L)" for i, c in enumerate(chunk))


def _hashable(field: Json) -> str:
    column = quoted(field["name"])
    kind = physical(field["type"])
    if isinstance(kind, str):
        return column
    return f"to_json(named_struct('x', {_without_maps(column, kind, 0)}), {_JSON_OPTIONS})"


def _without_maps(value: str, kind: Type, depth: int) -> str:
    """SQL text of `value` with each map in it as an array of its entries, sorted; anything else
    unchanged."""
    if isinstance(kind, str) or not _has_map(kind):
        return value
    item = f"x{depth}"
    match kind["type"]:
        case "map":
            key = _without_maps(f"{item}.key", kind["keyType"], depth + 1)
            entry = f"named_struct('k', {key}, 'v', {_without_maps(f'{item}.value', kind['valueType'], depth + 1)})"
            return f"array_sort(transform(map_entries({value}), {item} -> {entry}))"
        case "array":
            return f"transform({value}, {item} -> {_without_maps(item, kind['elementType'], depth + 1)})"
        case _:
            inner = [
                _without_maps(f"{value}.{quoted(f['name'])}", f["type"], depth)
                for f in kind["fields"]
            ]
            fields = [f"'f{i}', {text}" for i, text in enumerate(inner)]
            return f"IF({value} IS NULL, NULL, named_struct({', '.join(fields)}))"


def _has_map(kind: Type) -> bool:
    return not isinstance(kind, str) and (
        kind["type"] == "map" or any(map(_has_map, _children(kind)))
    )


@dataclass(frozen=True, slots=True)
class Marks:
    """A random number for each row, and the text `row` of those that are drawn by it; NULL of
    others. `name` and `hashed` are names that no column has: of the number, and of a hash of it."""

    name: str
    hashed: str
    row: str


def profile_query(
    schema: Schema, view: str, marks: Marks, columns: Iterable[str], aggregates: Iterable[str]
) -> str:
    """SQL text: per label, what `content_query` gives, an array of the rows that are drawn, and
    `aggregates` of the named expressions `columns`."""
    hashed = (f"{marks.hashed} AS h0", f"{row_hash(schema, 1)} AS h1", f"{marks.row} AS drawn")
    selected = ", ".join((LABEL, *hashed, *columns))
    rows = f"SELECT {selected} FROM {_marked(marks, row_hash(schema, 0), view)}"
    columns_of_label = ", ".join((HALVES, "collect_list(drawn)", *aggregates))
    return f"SELECT {LABEL}, count(*), {columns_of_label} FROM ({rows}) GROUP BY {LABEL}"


def content_query(schema: Schema, view: str, texts: Sequence[str] = ()) -> str:
    """SQL text: per label, and per values of the expressions `texts`, these, the row count and the
    halves of both sums. Halves cannot overflow below 2^31 rows."""
    named = "".join(f"{text} AS k{i}, " for i, text in enumerate(texts))
    rows = f"SELECT {LABEL}, {named}{row_hash(schema, 0)} AS h0, {row_hash(schema, 1)} AS h1 FROM {view}"
    groups = ", ".join((LABEL, *(f"k{i}" for i in range(len(texts)))))
    return f"SELECT {groups}, count(*), {HALVES} FROM ({rows}) GROUP BY {groups}"


def _marked(marks: Marks, first: str, view: str) -> str:
    """The number is the low half of the row's hash, against a multiple of the row's place: equal
    rows have different ones, well spread. A call of `rand` for each row would take a tenth of the
    pass."""
    place = f"(monotonically_increasing_id() & {(1 << 30) - 1}L) * {SPREADING}L"
    number = f"({marks.hashed} ^ {place}) & {(1 << 32) - 1}L"
    return f"(SELECT *, {number} AS {marks.name} FROM (SELECT *, {first} AS {marks.hashed} FROM {view}))"


def content_of(rows: int, low1: int, high1: int, low2: int, high2: int) -> Content:
    return Content(rows, (low1 + (high1 << 32)) & MASK, (low2 + (high2 << 32)) & MASK)

"""Contents of few rows without a job of Spark: the hashes of `content`, computed where the rows
were read.

They are Spark's own `xxhash64`, one after the other over a row's columns, each seeded with the one
before it: here over whole columns at a time, of numbers by numpy (XXH64,
https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_intdigest

from dataplane.contract.identity import Content
from dataplane.contract.schemas import HEADERS, Json, Schema
from dataplane.contract.types import decimal_digits
from dataplane.contract.xxh64 import PRIMES, SEED
from dataplane.fragments.arrow import arrow_type
from dataplane.fragments.content import BITS, FLOATS, columns_id

Words: TypeAlias = npt.NDArray[np.uint64]
Values: TypeAlias = npt.NDArray[Any]

P1, P2, P3, P4, P5 = map(np.uint64, PRIMES)
_KINDS = frozenset(
    (
        "byte",
        "short",
        "integer",
        "long",
        *FLOATS,
        "boolean",
        "date",
        "timestamp",
        "timestamp_ntz",
        "string",
        "binary",
    )
)
_NUMBERS = {
    "boolean": pa.int8(),
    "date": pa.int32(),
    "timestamp": pa.int64(),
    "timestamp_ntz": pa.int64(),
}
_LONG_DIGITS = 18  # of decimals that Spark hashes as a long
# In names of headers: Spark writes some of them in another way
_ESCAPED = re.compile(r"[\0-\x1f]")


def is_simple(schema: Schema) -> bool:
    """Whether all columns are of types that `content` knows. One of them is nested: the headers of
    messages. Like all nested values they are hashed as JSON."""
    return all(_arrow_type(f["type"]) is not None for f in schema["fields"])


def content(schema: Schema, rows: pa.Table) -> Content | None:
    """Content of rows that were read from files of this schema. None if only Spark can compute
    it."""
    fields = schema["fields"]
    if [(c.name, c.type) for c in rows.schema] != [
        (f["name"], _arrow_type(f["type"])) for f in fields
    ]:
        return None
    try:
        columns = [
            _column(f["type"], rows.column(i).combine_chunks()) for i, f in enumerate(fields)
        ]
    except ValueError:  # headers whose JSON is not certain
        return None
    states = np.full((2, rows.num_rows), SEED, np.uint64)
    for words in _front(schema, columns):
        states = _of_longs(words, states)
    for column in columns:
        hashed = column.hashed(states)
        states = hashed if column.kind == "headers" else np.where(column.is_null, states, hashed)
    sums = states.sum(axis=1, dtype=np.uint64)
    return Content(rows.num_rows, int(sums[0]), int(sums[1]))


def hashes(kind: str, values: pa.Array) -> Words:
    """Spark's `xxhash64` of each value, none of which is NULL."""
    return _column(kind, values).hashed(np.full(len(values), SEED, np.uint64))


def _arrow_type(kind: Json) -> pa.DataType | None:
    if not isinstance(kind, str):
        return arrow_type(kind) if kind == HEADERS else None
    precision, _ = decimal_digits(kind) or (_LONG_DIGITS + 1, 0)
    return arrow_type(kind) if kind in _KINDS or precision <= _LONG_DIGITS else None


def _front(schema: Schema, columns: Sequence[_Column]) -> Iterator[Words]:
    """The words that are hashed before the columns themselves: see `content.row_hash`."""
    yield np.arange(2, dtype=np.uint64)[:, None]
    yield np.full(1, columns_id(schema), np.uint64)
    yield from _bits([c.is_null for c in columns])
    yield from _bits(
        [_is_negative_zero(c.values) & ~c.is_null for c in columns if c.kind in FLOATS]
    )


def _bits(conditions: Sequence[Values]) -> Iterator[Words]:
    for start in range(0, len(conditions), BITS):
        chunk = conditions[start : start + BITS]
        yield sum(
            (c.astype(np.uint64) << np.uint64(i) for i, c in enumerate(chunk)),
            np.zeros(1, np.uint64),
        )


# --- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Column:
    """`values`: numbers as Spark hashes them, of 32 or 64 bits each, or texts; anything where they
    are NULL."""

    kind: str
    is_null: Values
    values: Values | _TextColumn

    def hashed(self, seeds: Words) -> Words:
        if isinstance(self.values, _TextColumn):
            return self.values.hashed(seeds)
        values = _bits_of_floats(self.values) if self.kind in FLOATS else self.values
        if values.itemsize == 8:
            return _of_longs(values.view(np.uint64), seeds)
        return _of_ints(values.astype(np.int32).view(np.uint32).astype(np.uint64), seeds)


def _header_texts(values: pa.Array) -> _TextColumn:
    """Each list as the JSON that `content.row_hash` hashes. ValueError where it is not certain."""
    if values.null_count == len(values):
        texts = ['{"x":null}'] * len(values)
    else:
        texts = [_header_text(headers) for headers in values.to_pylist()]
    return _texts(pa.array(texts, pa.string()))


def _header_text(headers: list[dict[str, Any]] | None) -> str:
    if headers is None:
        return '{"x":null}'
    return '{"x":[' + ",".join(map(_header_json, headers)) + "]}"


def _header_json(header: dict[str, Any] | None) -> str:
    if header is None:
        return "null"
    key, body = header["key"], header["value"]
    if key is not None and _ESCAPED.search(key):
        raise ValueError("a control character, which has several forms in JSON")
    text = None if body is None else b64encode(body).decode()
    return json.dumps({"key": key, "value": text}, ensure_ascii=False, separators=(",", ":"))


def _column(kind: Json, values: pa.Array) -> _Column:
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    if not isinstance(kind, str):
        return _Column("headers", is_null, _header_texts(values))
    if kind in ("string", "binary"):
        return _Column(kind, is_null, _texts(values))
    if decimal_digits(kind):  # the low half of 16 bytes holds all of so few digits
        halves = np.frombuffer(values.buffers()[1] or b"", np.int64)
        return _Column(
            kind, is_null, halves[2 * values.offset : 2 * (values.offset + len(values)) : 2].copy()
        )
    values = values.cast(_NUMBERS.get(kind, values.type))
    return _Column(kind, is_null, values.fill_null(0).to_numpy(zero_copy_only=False))


def _is_negative_zero(values: Any) -> Values:
    return (values == 0) & np.signbit(values)  # type: ignore[no-any-return]


def _bits_of_floats(values: Values) -> Values:
    """There is one NaN, and one zero."""
    plain = np.where(
        np.isnan(values),
        values.dtype.type("nan"),
        np.where(values == 0, values.dtype.type(0), values),
    )
    return plain.view(np.int64 if values.itemsize == 8 else np.int32)


@dataclass(frozen=True, slots=True)
class _TextColumn:
    """Texts or bytes; empty where they are NULL."""

    bodies: Sequence[bytes]

    def hashed(self, seeds: Words) -> Words:
        by_seed = (map(xxh64_intdigest, self.bodies, row.tolist()) for row in np.atleast_2d(seeds))
        return np.array([list(words) for words in by_seed], np.uint64).reshape(seeds.shape)


def _texts(values: pa.Array) -> _TextColumn:
    return _TextColumn(values.cast(pa.binary()).fill_null(b"").to_pylist())


# --- XXH64 ----------------------------------------------------------------------------------------


def _of_ints(values: Words, seeds: Words) -> Words:
    return _mixed(_rotated((seeds + P5 + np.uint64(4)) ^ (values * P1), 23) * P2 + P3)


def _of_longs(values: Words, seeds: Words) -> Words:
    return _mixed(_rotated((seeds + P5 + np.uint64(8)) ^ _round(values), 27) * P1 + P4)


def _round(values: Words) -> Words:
    return _rotated(values * P2, 31) * P1


def _rotated(values: Words, by: int) -> Words:
    return (values << np.uint64(by)) | (values >> np.uint64(64 - by))


def _mixed(values: Words) -> Words:
    values = (values ^ (values >> np.uint64(33))) * P2
    values = (values ^ (values >> np.uint64(29))) * P3
    return values ^ (values >> np.uint64(32))

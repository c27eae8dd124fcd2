"""Sketches of the distinct values of a fragment's columns, from all of its rows: in Spark's query, or from tables.

Both ways hash a value by Spark's `xxhash64`, and this hash as DataSketches does (MurmurHash3 of 128 bits, x64), so
their sketches merge. Does not belong here: what a sketch is (`contract.sketches`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataplane.contract import sketches
from dataplane.contract.profiles import shape_of
from dataplane.contract.schemas import Json, Schema
from dataplane.fragments.content import quoted
from dataplane.fragments.content_local import Words, hashes

MOST_COLUMNS = 64  # with sketches
SEED = 9001  # of DataSketches' updates
_LIST, _SET, _HLL = range(3)  # how DataSketches stores a sketch, in the low bits of its eighth byte
_BEGINS = {_LIST: 8, _SET: 12, _HLL: 40}  # where coupons or registers do
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_ADDRESS = np.uint64((1 << sketches.ADDRESS_BITS) - 1)


def sketched_columns(schema: Schema) -> list[Json]:
    """Those of plain types, as far as there are not too many."""
    return [f for f in schema["fields"][:MOST_COLUMNS] if shape_of(f["type"]) not in ("size", "other")]


# --- by Spark -----------------------------------------------------------------------------------


def aggregates(schema: Schema) -> list[str]:
    """SQL text of a sketch of each of `sketched_columns`."""
    names = [quoted(field["name"]) for field in sketched_columns(schema)]
    return [f"hll_sketch_agg(IF({name} IS NULL, NULL, xxhash64({name})), {sketches.BITS})" for name in names]


def of_datasketches(body: bytes) -> str:
    """The same sketch in our form. ValueError for what DataSketches would not write."""
    mode = body[7] & 3
    begins = _BEGINS.get(mode)
    if begins is None or body[3] != sketches.BITS:
        raise ValueError("no HLL sketch of this size")
    if mode == _HLL:
        return sketches.of_maxima(bytes(body[begins : begins + sketches.REGISTERS]))
    coupons = np.frombuffer(body, "<u4", offset=begins)
    return sketches.of_coupons(coupons[coupons != 0].tolist())


# --- from tables in memory ------------------------------------------------------------------------


def of_table(schema: Schema, table: pa.Table) -> dict[str, str]:
    """Of the columns of a table that `content_local` can hash, by name."""
    found: dict[str, str] = {}
    for field in sketched_columns(schema):
        values = pc.unique(table.column(field["name"])).drop_null()
        found[field["name"]] = _sketch(hashes(str(field["type"]), values))
    return found


def _sketch(hashed: Words) -> str:
    coupons = np.unique(_coupons(hashed))
    if len(coupons) <= sketches.FEW:
        return sketches.of_coupons(coupons.tolist())
    registers = np.zeros(sketches.REGISTERS, np.uint8)
    slots = coupons & np.uint64(sketches.REGISTERS - 1)
    np.maximum.at(registers, slots, (coupons >> np.uint64(sketches.ADDRESS_BITS)).astype(np.uint8))
    return sketches.of_maxima(registers.tobytes())


def _coupons(values: Words) -> Words:
    mixed = values * _C1
    mixed = ((mixed << np.uint64(31)) | (mixed >> np.uint64(33))) * _C2
    one = np.uint64(SEED) ^ mixed ^ np.uint64(8)
    two = np.full_like(one, np.uint64(SEED ^ 8))
    one = one + two
    two = two + one
    one, two = _finished(one), _finished(two)
    one = one + two
    two = two + one
    zeros = np.minimum(_leading_zeros(two), 62) + 1
    coupons: Words = (zeros.astype(np.uint64) << np.uint64(sketches.ADDRESS_BITS)) | (one & _ADDRESS)
    return coupons


def _finished(values: Words) -> Words:
    values = (values ^ (values >> np.uint64(33))) * _M1
    values = (values ^ (values >> np.uint64(33))) * _M2
    return values ^ (values >> np.uint64(33))


def _leading_zeros(values: Words) -> Any:
    """Of 64 bits."""
    zeros = np.full(len(values), 64, np.int64)
    rest = values.copy()
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >> np.uint64(step)
        is_high = high != 0
        zeros = np.where(is_high, zeros - step, zeros)
        rest = np.where(is_high, high, rest)
    return zeros - (rest != 0)


def merged_by_name(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Of two files with the same columns."""
    return {name: sketches.merged([sketch, other[name]]) for name, sketch in one.items()}

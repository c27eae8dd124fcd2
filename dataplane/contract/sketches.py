"""Sketches of the distinct values of a column, which merge: HyperLogLog, as Apache DataSketches has it.

Each value is hashed to a coupon of 32 bits: 26 bits of one hash are an address, 6 are the leading zeros of another one.
Up to FEW coupons are kept as they are, and their number is that of the values. Of more, each of 16,384 registers keeps
the greatest number of zeros of its addresses (standard error 0.8 %). Standard library only, since both planes merge.
Does not belong here: hashes of values (`fragments.distinct`), what a profile tells (`core.profiles`).
"""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Iterable, Sequence
from math import isinf, log

BITS = 14
REGISTERS = 1 << BITS
FEW = 1_000  # values that are counted one by one
ADDRESS_BITS = 26
MOST_ZEROS = 63
COUPONS, MAXIMA = "c", "r"  # begin the text of a sketch
_SLOTS = REGISTERS - 1
_HIGH = int.from_bytes(b"\x80" * REGISTERS, "little")  # the highest bit of each register's byte


def of_coupons(coupons: Iterable[int]) -> str:
    """The sketch of values with these coupons, as text."""
    distinct = set(coupons)
    return _listed(distinct) if len(distinct) <= FEW else _text(MAXIMA, _maxima(distinct))


def of_maxima(registers: bytes) -> str:
    """The sketch with these registers. ValueError for another number of them, or of zeros."""
    if len(registers) != REGISTERS or max(registers) > MOST_ZEROS:
        raise ValueError("no registers")
    return _text(MAXIMA, registers)


def merged(parts: Sequence[str]) -> str:
    """The sketch of all values of the parts. ValueError for what is none."""
    if len(parts) == 1:
        return parts[0]
    coupons = set[int]()
    maxima: int | None = None
    for part in parts:
        kind, body = _read(part)
        if kind == MAXIMA:
            number = int.from_bytes(body, "little")
            maxima = number if maxima is None else _greater(maxima, number)
        else:
            coupons.update(_coupons(body))
    if maxima is None:
        return of_coupons(coupons)
    if coupons:
        maxima = _greater(maxima, int.from_bytes(_maxima(coupons), "little"))
    return _text(MAXIMA, maxima.to_bytes(REGISTERS, "little"))


def is_exact(sketch: str) -> bool:
    """Whether the values were few enough to be counted one by one."""
    return sketch.startswith(COUPONS)


def count(sketch: str) -> int:
    """How many values there are; of many, an estimate."""
    kind, body = _read(sketch)
    return len(_coupons(body)) if kind == COUPONS else round(_estimate(body))


def _listed(coupons: set[int]) -> str:
    values = array("I", sorted(coupons))
    if sys.byteorder == "big":
        values.byteswap()
    return _text(COUPONS, values.tobytes())


def _text(kind: str, body: bytes) -> str:
    return kind + base64.b64encode(body).decode()


def _read(sketch: str) -> tuple[str, bytes]:
    """Raises ValueError."""
    kind, body = sketch[:1], base64.b64decode(sketch[1:], validate=True)
    if kind == MAXIMA and len(body) == REGISTERS and max(body) <= MOST_ZEROS:
        return kind, body
    if kind == COUPONS and len(body) % 4 == 0 and len(body) <= 4 * FEW:
        return kind, body
    raise ValueError("no sketch")


def _coupons(body: bytes) -> array[int]:
    values = array("I", body)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _maxima(coupons: Iterable[int]) -> bytes:
    registers = bytearray(REGISTERS)
    for coupon in coupons:
        slot, zeros = coupon & _SLOTS, coupon >> ADDRESS_BITS
        registers[slot] = max(registers[slot], zeros)
    return bytes(registers)


def _greater(one: int, other: int) -> int:
    """The greater of each two bytes below 128, all at once: a loop over them would take thirty times as long."""
    is_greater = ((one | _HIGH) - other) & _HIGH
    mask = (is_greater << 1) - (is_greater >> 7)
    return other ^ ((one ^ other) & mask)


def _estimate(registers: bytes) -> float:
    """The improved raw estimator of O. Ertl, New cardinality estimation algorithms for HyperLogLog sketches, 2017."""
    total = 0.0
    for zeros in range(MOST_ZEROS, 0, -1):
        total = 0.5 * (total + registers.count(zeros))
    total += REGISTERS * _sigma(registers.count(0) / REGISTERS)
    return 0.0 if isinf(total) else REGISTERS * REGISTERS / (2 * log(2) * total)


def _sigma(share: float) -> float:
    if share == 1.0:
        return float("inf")
    weight, total, before = 1.0, share, -1.0
    while total != before:
        share *= share
        before = total
        total += share * weight
        weight += weight
    return total

"""Sketches of the distinct values of a column, which merge: hashes while they are few, bitmaps of
them above.

Each value has a hash of 32 bits. Up to FEW hashes are kept as they are, and their number is that of
the values. Above that, bitmaps keep where hashes fall. The first bitmap is of all values, each next
one of a RATE-th of the values of the one before, by other bits of the hash, so the first that is
not too full gives the number (Whang, Vander-Zanden and Taylor, 1990; Estan, Varghese and Fisk,
Bitmap algorithms for counting active flows, 2003). The standard error is at most 1.4 %. Standard
library only, since both planes merge.
"""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Iterable, Sequence
from math import log

FEW = 1_000  # values that are counted one by one
HASH_BITS = 32
PLACE_BITS = 15
PLACES = 1 << PLACE_BITS  # of a bitmap
RATE_BITS = 5
LEVELS = 4  # bitmaps, for up to six billion values
BITMAP_BYTES = PLACES // 8
BITMAPS_BYTES = LEVELS * BITMAP_BYTES
LONGEST = 4 * -(-BITMAPS_BYTES // 3) + 1  # characters of a sketch
FEWEST_EMPTY = 200  # places of a bitmap from which a number is estimated
HASHES, BITMAPS = "h", "b"  # begin the text of a sketch


def level_mask(level: int) -> int:
    """Bits of a hash that are zero for the values of a level."""
    return ((1 << (RATE_BITS * level)) - 1) << PLACE_BITS


def of_hashes(hashes: Iterable[int]) -> str:
    """The sketch of values with these hashes, as text."""
    distinct = set(hashes)
    return _listed(distinct) if len(distinct) <= FEW else of_bitmaps(_bitmaps(distinct))


def of_sorted(body: bytes) -> str:
    """The sketch of at most FEW hashes: sorted, of four bytes each in little endian."""
    return _text(HASHES, body)


def of_bitmaps(body: bytes) -> str:
    """The sketch with the bitmaps of all levels, one behind the other. ValueError for another
    number of bytes."""
    if len(body) != BITMAPS_BYTES:
        raise ValueError("no bitmaps")
    return _text(BITMAPS, body)


def merged(parts: Sequence[str]) -> str:
    """The sketch of all values of the parts. ValueError for a text that is no sketch."""
    if len(parts) == 1:
        return parts[0]
    hashes = set[int]()
    bits, has_bitmaps = 0, False
    for part in parts:
        kind, body = _read(part)
        if kind == BITMAPS:
            bits |= int.from_bytes(body, "little")
            has_bitmaps = True
        else:
            hashes.update(_hashes(body))
    if not has_bitmaps:
        return of_hashes(hashes)
    bits |= int.from_bytes(_bitmaps(hashes), "little")
    return _text(BITMAPS, bits.to_bytes(BITMAPS_BYTES, "little"))


def is_exact(sketch: str) -> bool:
    """Whether the values were few enough to be counted one by one."""
    return sketch.startswith(HASHES)


def count(sketch: str) -> int:
    """How many values there are; of many, an estimate."""
    kind, body = _read(sketch)
    return len(_hashes(body)) if kind == HASHES else round(_estimate(body))


def _listed(hashes: set[int]) -> str:
    values = array("I", sorted(hashes))
    if sys.byteorder == "big":
        values.byteswap()
    return _text(HASHES, values.tobytes())


def _text(kind: str, body: bytes) -> str:
    return kind + base64.b64encode(body).decode()


def _read(sketch: str) -> tuple[str, bytes]:
    """Raises ValueError."""
    kind, body = sketch[:1], base64.b64decode(sketch[1:], validate=True)
    if kind == BITMAPS and len(body) == BITMAPS_BYTES:
        return kind, body
    if kind == HASHES and len(body) % 4 == 0 and len(body) <= 4 * FEW:
        return kind, body
    raise ValueError("no sketch")


def _hashes(body: bytes) -> array[int]:
    values = array("I", body)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _bitmaps(hashes: Iterable[int]) -> bytes:
    body = bytearray(BITMAPS_BYTES)
    for value in hashes:
        place = value % PLACES
        for level in range(LEVELS):
            if value & level_mask(level):
                break
            body[level * BITMAP_BYTES + place // 8] |= 1 << place % 8
    return bytes(body)


def _estimate(body: bytes) -> float:
    """Linear counting, by the first bitmap with places enough that are empty; at least by the last
    one."""
    for level in range(LEVELS):
        bitmap = body[level * BITMAP_BYTES : (level + 1) * BITMAP_BYTES]
        empty = PLACES - int.from_bytes(bitmap, "little").bit_count()
        if empty >= FEWEST_EMPTY:
            break
    return float(PLACES * log(PLACES / max(1, empty)) * (1 << (RATE_BITS * level)))

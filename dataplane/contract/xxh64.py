"""XXH64 with the seed of Spark's `xxhash64`, for one text at a time.

https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
"""

from __future__ import annotations

from typing import Final

SEED: Final = 42  # of Spark's `xxhash64`
PRIMES: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_P1, _P2, _P3, _P4, _P5 = PRIMES
_MASK: Final = (1 << 64) - 1


def xxhash64(data: bytes) -> int:
    """The hash as Spark's BIGINT: a signed number of 64 bits."""
    end = len(data) - len(data) % 32
    state = _stripes(data[:end]) if end else SEED + _P5
    state = (state + len(data)) & _MASK
    while len(data) - end >= 8:
        state ^= _round(0, int.from_bytes(data[end : end + 8], "little"))
        state = (_rotated(state, 27) * _P1 + _P4) & _MASK
        end += 8
    if len(data) - end >= 4:
        state ^= int.from_bytes(data[end : end + 4], "little") * _P1 & _MASK
        state = (_rotated(state, 23) * _P2 + _P3) & _MASK
        end += 4
    for byte in data[end:]:
        state = _rotated(state ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    return _signed(_mixed(state))


def _stripes(data: bytes) -> int:
    lanes = [(SEED + start) & _MASK for start in (_P1 + _P2, _P2, 0, -_P1)]
    for at in range(0, len(data), 8):
        lane = at // 8 % 4
        lanes[lane] = _round(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
    state = sum(map(_rotated, lanes, (1, 7, 12, 18))) & _MASK
    for lane_state in lanes:
        state = ((state ^ _round(0, lane_state)) * _P1 + _P4) & _MASK
    return state


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & _MASK


def _mixed(state: int) -> int:
    state = (state ^ state >> 33) * _P2 & _MASK
    state = (state ^ state >> 29) * _P3 & _MASK
    return state ^ state >> 32


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word

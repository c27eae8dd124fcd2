"""Where nodes end: a function of the key alone, the same for ever, because roots depend on it.

Every key is tested for a boundary, so that hash is a cheap one: CRC-32, modulo a prime, which
breaks up its linearity (keys that differ in a few digits otherwise hit or miss together). How far
up a boundary goes is computed for one key in 509, with a better hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from zlib import crc32

LEAF_KEYS = 509
"""Mean number of entries in a leaf. The mean number of children of an inner node is 512 (nine
bits)."""

_END = 1  # the remainder at which a leaf ends; not 0, which is the empty key's

TOP = 8
"""No key is a boundary above this height, so no node has a higher level."""


def boundaries(keys: Sequence[str]) -> list[int]:
    """Positions of the keys at which a leaf ends. Raises UnicodeEncodeError, a ValueError, for lone
    surrogates."""
    return [i for i, crc in enumerate(map(crc32, map(str.encode, keys))) if crc % LEAF_KEYS == _END]


def height(key: str) -> int:
    """Nodes of every level below this (leaves are level 0) end at this key; 0 for nearly all
    keys."""
    data = key.encode()
    if crc32(data) % LEAF_KEYS != _END:
        return 0
    bits = int.from_bytes(blake2b(data, digest_size=8).digest(), "big").bit_length()
    return 1 + (64 - bits) // 9

"""XXH64 with the seed of Spark's `xxhash64`.

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


def xxhash64(data: bytes) -> int:
    """The hash as Spark's BIGINT: a signed number of 64 bits."""
    from xxhash import xxh64_intdigest  # not at each start: few keys are buckets

    word = xxh64_intdigest(data, SEED)
    return word - (1 << 64) if word >> 63 else word

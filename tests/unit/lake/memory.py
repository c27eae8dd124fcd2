"""How much memory Arrow takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

# Buffers need their pool as long as they live
_POOLS: list[pa.MemoryPool] = []


@dataclass
class Memory:
    """`peak`: the most bytes that were held at once, set at the end."""

    peak: int = 0


@contextmanager
def peak_bytes() -> Iterator[Memory]:
    memory = Memory()
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    _POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        yield memory
    finally:
        pa.set_memory_pool(usual)
        memory.peak = pool.max_memory()

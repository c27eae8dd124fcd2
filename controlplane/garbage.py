"""How often Python looks for garbage in cycles."""

from __future__ import annotations

import gc

ALLOCATIONS, YOUNG, OLD = 100_000, 20, 100


def collect_rarely() -> None:
    """For a process of ours. Imports and plans make many values and few cycles: by default, half of
    the time of a plan over 10,000 components goes into looking for them."""
    gc.set_threshold(ALLOCATIONS, YOUNG, OLD)

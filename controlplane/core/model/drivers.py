"""Processes that pull work.

Does not belong here: how they are stored, or how they are decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from controlplane.core.model.tasks import Size

Fault: TypeAlias = Literal[
    "", "crashed", "memory", "deadline", "evicted", "disrupted", "quota", "refused", "image", "unschedulable"
]


@dataclass(frozen=True, slots=True)
class Driver:
    """A child or pod that pulls work. `pool` is `local` or `kubernetes`; `kind` tells if it has a JVM.

    `reason` says why it ended, or what it waits for. The `fault` is what its attempts ended of; it and
    the `size` are not stored.
    """

    id: str
    pool: str
    kind: Literal["driver", "worker"]
    at: float
    seen: float
    ended: bool = False
    reason: str = ""
    fault: Fault = field(default="", compare=False)
    size: Size = field(default="standard", compare=False)

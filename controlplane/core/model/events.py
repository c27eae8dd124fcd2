"""What has happened, as users are told of it.

Does not belong here: how they are stored, or how they are decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dataplane.contract.schemas import Json

CLAIMED = "task.claimed"  # the kind of event that begins an attempt: `{attempt, driver}`


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `n` is what counters add up."""

    kind: str
    dataset: str = ""
    n: int = 0
    body: Mapping[str, Json] = field(default_factory=dict)
    id: int = 0
    at: float = 0.0

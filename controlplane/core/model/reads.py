"""Reads of data, as the audit has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from controlplane.core.model.json_values import JsonValue

How: TypeAlias = Literal[
    "records", "changes", "query", "page", "rows-diff", "profile", "s3", "sharing", "spark-session"
]


@dataclass(frozen=True, slots=True)
class RecordedRead:
    """A read of rows of a dataset. `times` and `bytes` add up the requests of a minute where these
    are recorded together; `at` is then its beginning. `what` describes the request: generation,
    format, and the like."""

    actor: str
    request_id: str
    how: How
    branch: str
    dataset: str
    at: float
    times: int = 1
    bytes: int | None = None  # None: not counted
    what: Mapping[str, JsonValue] = field(default_factory=dict)

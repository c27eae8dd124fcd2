"""Answers about a home whose service is stopped, from its database alone.

An API in this process would give the same answers. Most of the time of a short command would go
into its start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.operations.desired import branches
from controlplane.operations.inspect import overview

if TYPE_CHECKING:
    from controlplane.core.model.answers import StatusAnswer
    from controlplane.operations.context import Context


@dataclass(frozen=True, slots=True)
class StoppedHome:
    """Has methods of the client, by the same names. They raise errors of operations in place of
    ApiError."""

    context: Context

    def status(
        self, target: str | None = None, *, branch: str = "main", long: bool = False
    ) -> StatusAnswer:
        branches.branch_named(self.context, branch)
        value = overview.status(self.context, branch, target, long=long)
        # Lists for tuples, as a client has them
        answer: StatusAnswer = json.loads(json.dumps(value))
        return answer

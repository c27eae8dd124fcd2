"""The audit: changes of the desired state, and reads of data."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from controlplane.api import auth
from controlplane.api.calls import Called, JsonAnswer, answer, branch_of
from controlplane.core import rest
from controlplane.core.model import addresses
from controlplane.core.model.answers import AuditAnswer, ReadsAnswer
from controlplane.core.model.branches import MAIN
from controlplane.operations.inspect import audit

Limit = Annotated[int, Query(ge=1, le=10_000)]
Since = Annotated[
    str | None, Query(max_length=100, description="A time with its zone: what was at it or later.")
]
Until = Annotated[
    str | None, Query(max_length=100, description="A time with its zone: what was before it.")
]

router = auth.router("admin")


@router.answers(rest.AUDIT)
def changes(
    call: Called,
    limit: Limit = 100,
    branch: Annotated[str, Query()] = MAIN,
    since: Since = None,
    until: Until = None,
    all_branches: bool = False,
) -> JsonAnswer[AuditAnswer]:
    """Who changed the desired state of a branch, of `all_branches`, or of the installation; the
    last changes first."""
    of = None if all_branches else branch_of(call, branch)
    entries = audit.changes(call.context, of, limit, since=_time(since) or 0.0, until=_time(until))
    return answer(entries)


@router.answers(rest.AUDIT_READS)
def reads(
    call: Called,
    limit: Limit = 100,
    branch: Annotated[str | None, Query()] = None,
    since: Since = None,
    until: Until = None,
) -> JsonAnswer[ReadsAnswer]:
    """Who read rows of which dataset, in a branch or in all; the last reads first. Reads through
    the S3 view are counted by key, dataset and minute."""
    of = None if branch is None else branch_of(call, branch)
    return answer(
        audit.reads(call.context, of, limit, since=_time(since) or 0.0, until=_time(until))
    )


def _time(text: str | None) -> float | None:
    return None if text is None else addresses.moment_of(text).milliseconds / 1000

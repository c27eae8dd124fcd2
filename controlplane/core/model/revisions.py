"""Desired state as it was accepted: revisions of blueprints, and audited changes.

Does not belong here: how they are stored, or how they are decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAIN = "main"  # the branch that is always there


@dataclass(frozen=True, slots=True)
class Revision:
    """One accepted text of a dataflow. `files` are the texts that it names; `uids` its components' immutable ids."""

    branch: str
    dataflow: str
    number: int
    text: str
    files: Mapping[str, str]
    file: str
    uids: Mapping[str, str]
    actor: str
    request_id: str
    at: float


@dataclass(frozen=True, slots=True)
class Change:
    """An audited change of desired state (who, when, what before and after). One that concerns the whole installation,
    such as a new token, has NO_BRANCH."""

    actor: str
    request_id: str
    action: str
    target: str
    before: object  # as JSON
    after: object
    at: float
    branch: str = field(kw_only=True)

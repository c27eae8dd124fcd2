"""Desired state as it was accepted: revisions of blueprints, and audited changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MAIN = "main"  # the branch that is always there

# A component has the defaults of the edition of the language in which it was made; its uid names
# the edition. So existing components keep their rows under later editions.
FOLDERS: Final = 2  # folders `key=value` of files are columns
NEWEST_EDITION: Final = FOLDERS
_EDITION = "+"  # before its number, from the second on


def edition_of(uid: str) -> int:
    return int(uid.partition(_EDITION)[2] or 1)


def without_edition(uid: str) -> str:
    """The part of a uid that identifies the component in every edition."""
    return uid.partition(_EDITION)[0]


def in_edition(uid: str, edition: int) -> str:
    own = without_edition(uid)
    return own if edition == 1 else f"{own}{_EDITION}{edition}"


@dataclass(frozen=True, slots=True)
class Revision:
    """One accepted text of a dataflow. `files` are the texts that it names; `uids` its components'
    immutable ids."""

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
class AuditedChange:
    """An audited change of desired state (who, when, what before and after). One that concerns the
    whole installation, such as a new token, has NO_BRANCH."""

    actor: str
    request_id: str
    action: str
    target: str
    before: object  # as JSON
    after: object
    at: float
    branch: str = field(kw_only=True)

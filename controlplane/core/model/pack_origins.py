"""The remains of packs that are no longer read: where each came from, and folders that wait for
deletion."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """The leaf that a pack was requested for, one fragment in it, and when. Other leaves of the
    same rows have the same pack: each of them holds `member`."""

    pack: bytes
    leaf: bytes
    member: bytes
    at: float


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """A folder of the lake that is used for nothing new. From `due` on, no reader is left."""

    folder: str
    attempt: str
    due: float

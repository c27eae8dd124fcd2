"""Names of the facts that can change under a plan besides datasets, whose names mark themselves."""

from __future__ import annotations

PAUSES, FORCED, BRANCHES, HOLDS = "pauses:", "forced:", "branches:", "holds:"
SIZES = "sizes:"  # of tasks, in all branches
ENDED = "ended:"  # of a branch: a later one of the same name is another branch
BASE = "base:"  # of a pinned branch: it sees another main
AGAIN = frozenset({ENDED, BASE})  # all that is known of a branch is to be forgotten
_FLOW, _LISTING, _TASKS, _PROGRESS = "flow:", "listing:", "tasks:", "progress:"


def flow(name: str) -> str:
    return _FLOW + name


def listing(id: bytes) -> str:
    return _LISTING + id.hex()


def flow_of(mark: str) -> str | None:
    return mark.removeprefix(_FLOW) if mark.startswith(_FLOW) else None


def listing_of(mark: str) -> bytes | None:
    return bytes.fromhex(mark.removeprefix(_LISTING)) if mark.startswith(_LISTING) else None


def tasks(dataset: str) -> str:
    """The tasks changed that a dataset demands. Its other facts stay."""
    return _TASKS + dataset


def demanding(mark: str) -> str | None:
    return mark.removeprefix(_TASKS) if mark.startswith(_TASKS) else None


def progress(dataset: str) -> str:
    """The run under way of a dataset changed, or its half-built root. Its other facts stay."""
    return _PROGRESS + dataset


def progressing(mark: str) -> str | None:
    return mark.removeprefix(_PROGRESS) if mark.startswith(_PROGRESS) else None


def is_request_mark(mark: str) -> bool:
    """Whether the mark changes the wanted results."""
    return mark in (PAUSES, HOLDS) or mark in AGAIN or flow_of(mark) is not None

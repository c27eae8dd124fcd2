"""Answers about feeds."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.states import State


class FeedColumn(TypedDict):
    """`type`: as DDL."""

    name: str
    type: str


class FeedGrantEntry(TypedDict):
    """Dataflows of a namespace that may read a feed, by name or pattern."""

    namespace: str
    dataflows: str
    by: str
    at: float


class FeedReader(TypedDict):
    """What reads a feed. Of another namespace than the feed's own only its name is given: `branch`
    and `dataset` are None."""

    namespace: str
    branch: str | None
    dataset: str | None


class FeedEntry(TypedDict):
    """`columns`: the contract. `generation`: what readers get, `newest`: what the dataset has; they
    differ where the contract is broken, and `breaches` says by what."""

    name: str
    dataset: str
    columns: list[FeedColumn]
    by: str
    at: float
    generation: int | None
    newest: int | None
    breaches: list[str]
    grants: list[FeedGrantEntry]
    readers: list[FeedReader]


class FeedsAnswer(TypedDict):
    items: list[FeedEntry]
    next: str | None


class OfferedFeed(TypedDict):
    """A feed that dataflows of this namespace may read: what stands in a blueprint, and what they
    get."""

    namespace: str
    feed: str
    dataflows: list[str]
    columns: list[FeedColumn]
    generation: int | None
    breaches: list[str]


class FeedReading(TypedDict):
    """A dataset that follows a feed of a namespace. `generation`: its own, 0 before it has rows.
    `reason`: why it does not get new rows, if it does not."""

    dataset: str
    namespace: str
    feed: str
    state: State
    generation: int
    reason: str | None


class OfferedFeedsAnswer(TypedDict):
    items: list[OfferedFeed]
    next: str | None

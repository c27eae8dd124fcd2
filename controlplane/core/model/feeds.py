"""Feeds: datasets that are offered to other dataflows and namespaces under a name, with a contract
of columns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from dataplane.contract.schemas import Schema

NAME: Final = r"[a-z][a-z0-9_]{0,199}"
FEED_NAME: Final = re.compile(NAME, re.ASCII)
BREACH: Final = "feed-breach"
"""The condition of a reader whose feed offers an earlier state, as the newest one breaks the
contract."""

GLOB: Final = r"[a-z*][a-z0-9_*]{0,199}"
DATAFLOWS: Final = re.compile(GLOB, re.ASCII)


@dataclass(frozen=True, slots=True)
class Feed:
    """`dataset`: of main. `columns`: those that every state has that is offered; it may have
    more."""

    name: str
    dataset: str
    columns: Schema
    actor: str
    at: float


@dataclass(frozen=True, slots=True)
class FeedGrant:
    """Dataflows of a namespace that may read a feed. `dataflows`: their name, or a pattern with
    `*`."""

    feed: str
    namespace: str
    dataflows: str
    actor: str
    at: float


@dataclass(frozen=True, slots=True)
class FeedAddress:
    """What a read component names: a feed of a namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

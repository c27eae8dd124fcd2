"""Shares: datasets that are given to others through Delta Sharing, under names of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

NAME: Final = r"[a-z][a-z0-9_]{0,199}"
SHARE_NAME: Final = re.compile(NAME, re.ASCII)
"""Of shares, schemas and tables. Clients compare names without case, so all are in lower case."""


@dataclass(frozen=True, slots=True)
class ShareRow:
    """`id` distinguishes it from a later share of the same name."""

    name: str
    id: str
    actor: str
    at: float


@dataclass(frozen=True, slots=True)
class SharedTable:
    """A dataset of a branch in a share. `has_history`: earlier generations and changes are given,
    too."""

    share: str  # its id
    schema: str
    name: str
    branch: str
    dataset: str
    has_history: bool
    at: float

"""Sessions of browsers, and links that open one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

SessionKind: TypeAlias = Literal["session", "link", "used"]
"""`used`: a text that worked once, and opens nothing."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """What a random text opens, stored under the SHA-256 of that text. It ends with its token,
    whose id it has.

    `seen`: when it was last used; `ends`: when it is over however often it is used. Seconds since
    1970.
    """

    hash: bytes
    token: str
    kind: SessionKind
    at: float
    seen: float
    ends: float

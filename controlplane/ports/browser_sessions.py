"""The part of a transaction that is about sessions of browsers.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.browser_sessions import BrowserSession


class BrowserSessions(Protocol):
    """Browser sessions of one namespace. They are kept until they are dropped, also when they are over."""

    def browser_session(self, hashed: bytes) -> BrowserSession | None: ...

    def put_browser_session(self, session: BrowserSession) -> None:
        """Insert or replace."""

    def drop_browser_session(self, hashed: bytes) -> bool:
        """Whether it was there: of two callers that drop the same one, one gets True."""

    def drop_browser_sessions(self, before: float) -> None:
        """Those that ended before this time."""

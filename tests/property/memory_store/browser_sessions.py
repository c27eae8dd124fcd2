"""Sessions of browsers in memory: the twin of `sql.browser_sessions`. Does not belong here: which of them are over."""

from __future__ import annotations

from controlplane.core.model.browser_sessions import BrowserSession
from tests.property.memory_store.queue import MemoryPart


class MemoryBrowserSessions(MemoryPart):
    def browser_session(self, hashed: bytes) -> BrowserSession | None:
        return self._space.browser_sessions.get(hashed)

    def put_browser_session(self, session: BrowserSession) -> None:
        self._space.browser_sessions[session.hash] = session

    def drop_browser_session(self, hashed: bytes) -> bool:
        return self._space.browser_sessions.pop(hashed, None) is not None

    def drop_browser_sessions(self, before: float) -> None:
        over = [hashed for hashed, session in self._space.browser_sessions.items() if session.ends < before]
        for hashed in over:
            del self._space.browser_sessions[hashed]

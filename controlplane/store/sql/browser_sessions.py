"""Sessions of browsers. Does not belong here: which of them are over."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, delete

from controlplane.core.model.browser_sessions import BrowserSession
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part


class SqlBrowserSessions(Part):
    def browser_session(self, hashed: bytes) -> BrowserSession | None:
        row = self._row_of(db.browser_sessions, hash=hashed)
        return row and _session(row)

    def put_browser_session(self, session: BrowserSession) -> None:
        self._upsert(db.browser_sessions, [_row(session)])

    def drop_browser_session(self, hashed: bytes) -> bool:
        found = delete(db.browser_sessions).where(self._mine(db.browser_sessions, hash=hashed))
        return self._change(found) == 1

    def drop_browser_sessions(self, before: float) -> None:
        session = db.browser_sessions
        self._change(delete(session).where(self._mine(session) & (session.c.ends < before)))


def _session(row: Row[Any]) -> BrowserSession:
    return BrowserSession(row.hash, row.token, row.kind, at=row.at, seen=row.seen, ends=row.ends)


def _row(session: BrowserSession) -> dict[str, Any]:
    return {
        "hash": session.hash,
        "token": session.token,
        "kind": session.kind,
        "at": session.at,
        "seen": session.seen,
        "ends": session.ends,
    }

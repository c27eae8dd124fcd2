"""Access: tokens, browser sessions, rules of trust and roles."""

from __future__ import annotations

from controlplane.store.sql.browser_sessions import SqlBrowserSessions
from controlplane.store.sql.events import SqlTokens
from controlplane.store.sql.roles import SqlRoles
from controlplane.store.sql.trust import SqlTrustRules


class SqlAccess(SqlTokens, SqlBrowserSessions, SqlTrustRules, SqlRoles):
    """Each table's rows are mapped in a file of their own."""

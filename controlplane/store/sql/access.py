"""Access: tokens, browser sessions, rules of trust and roles.

Does not belong here: which sessions are over, the match with a token's claims, the permissions of
a role.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import Row, delete, update

from controlplane.core.model.access import Token
from controlplane.core.model.browser_sessions import BrowserSession
from controlplane.core.model.trust import TrustRule
from controlplane.core.rights import NamedRole
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import TableGroup
from controlplane.store.sql.row_records import Record, dump

_TOKENS = Record(db.tokens, Token, within="narrowed", roles=None)
_SESSIONS = Record(db.browser_sessions, BrowserSession)
_RULES = Record(db.trust_rules, TrustRule, within="narrowed")
_ROLES = Record(db.roles, NamedRole, within="narrowed")


class SqlAccess(TableGroup):
    # --- tokens

    def token(self, hashed: bytes) -> Token | None:
        row = self._row_of(db.tokens, hash=hashed)
        return row and _token(row)

    def token_by_id(self, id: str) -> Token | None:
        row = self._row_of(db.tokens, id=id)
        return row and _token(row)

    def tokens(self) -> tuple[Token, ...]:
        return tuple(sorted(map(_token, self._rows_of(db.tokens)), key=lambda t: (t.at, t.id)))

    def put_token(self, token: Token) -> None:
        self._upsert(db.tokens, [_token_row(token)])

    def touch_token(self, id: str, at: float) -> None:
        self._change(update(db.tokens).where(self._mine(db.tokens, id=id)).values(used=at))

    def drop_children(self, parent: str, before: float) -> None:
        token = db.tokens.c
        is_child = token.parent.startswith(parent, autoescape=True)
        old = self._mine(db.tokens) & is_child & (token.expires < before)
        self._change(delete(db.tokens).where(old))

    # --- sessions of browsers

    def browser_session(self, hashed: bytes) -> BrowserSession | None:
        return self._value_of(_SESSIONS, hash=hashed)

    def put_browser_session(self, session: BrowserSession) -> None:
        self._put(_SESSIONS, [session])

    def drop_browser_session(self, hashed: bytes) -> bool:
        session = self._mine(db.browser_sessions, hash=hashed)
        return self._change(delete(db.browser_sessions).where(session)) == 1

    def drop_browser_sessions(self, before: float) -> None:
        session = db.browser_sessions
        self._change(delete(session).where(self._mine(session) & (session.c.ends < before)))

    # --- rules of trust

    def trust_rules(self) -> tuple[TrustRule, ...]:
        return tuple(sorted(self._values_of(_RULES), key=lambda rule: rule.name))

    def has_trust_rule(self, id: str) -> bool:
        return self._row_of(db.trust_rules, id=id) is not None

    def put_trust_rule(self, rule: TrustRule) -> None:
        self._put(_RULES, [rule])

    def drop_trust_rule(self, rule: TrustRule) -> None:
        self._delete(db.trust_rules, name=rule.name)

    # --- roles

    def roles(self) -> tuple[NamedRole, ...]:
        return tuple(sorted(self._values_of(_ROLES), key=lambda role: role.name))

    def role(self, name: str) -> NamedRole | None:
        return self._value_of(_ROLES, name=name)

    def put_role(self, role: NamedRole) -> None:
        self._put(_ROLES, [role])

    def drop_role(self, name: str) -> None:
        self._delete(db.roles, name=name)


def _token(row: Row[Any]) -> Token:
    return _TOKENS.from_row(row, parent=row.parent or "")


def _token_row(token: Token) -> dict[str, Any]:
    """Kinds without patterns are left out, other than in roles and rules."""
    narrowed = {kind: patterns for kind, patterns in asdict(token.within).items() if patterns}
    return _TOKENS.to_row(token) | {"narrowed": dump(narrowed), "parent": token.parent or None}

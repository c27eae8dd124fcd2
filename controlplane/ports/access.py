"""The part of a transaction that is about tokens, browser sessions, trust rules and roles.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.access import Token
from controlplane.core.model.browser_sessions import BrowserSession
from controlplane.core.model.trust import TrustRule
from controlplane.core.rights import NamedRole


class AccessTables(Protocol):
    """Who may do what in one namespace. Browser sessions are kept until they are dropped, also when
    they are over."""

    def browser_session(self, hashed: bytes) -> BrowserSession | None: ...

    def put_browser_session(self, session: BrowserSession) -> None:
        """Insert or replace."""

    def drop_browser_session(self, hashed: bytes) -> bool:
        """Whether it was there: of two callers that drop the same one, one gets True."""

    def drop_browser_sessions(self, before: float) -> None:
        """Those that ended before this time."""

    def token(self, hashed: bytes) -> Token | None: ...

    def token_by_id(self, id: str) -> Token | None: ...

    def tokens(self) -> tuple[Token, ...]: ...

    def put_token(self, token: Token) -> None:
        """Insert or replace by id."""

    def touch_token(self, id: str, at: float) -> None:
        """It was used at this time. Nothing else of it is changed."""

    def roles(self) -> tuple[NamedRole, ...]:
        """All of them, by name; not those that are built in."""

    def role(self, name: str) -> NamedRole | None: ...

    def put_role(self, role: NamedRole) -> None:
        """Insert, or replace that of the same name."""

    def drop_role(self, name: str) -> None: ...

    def trust_rules(self) -> tuple[TrustRule, ...]:
        """All of them, by name."""

    def has_trust_rule(self, id: str) -> bool: ...

    def put_trust_rule(self, rule: TrustRule) -> None:
        """Insert, or replace that of the same name."""

    def drop_trust_rule(self, rule: TrustRule) -> None: ...

    def drop_children(self, parent: str, before: float) -> None:
        """Tokens whose `parent` starts so and that expired before this time."""

"""The part of a transaction that is about rules of trust.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from typing import Protocol

from controlplane.core.model.trust import TrustRule


class TrustRules(Protocol):
    """Trust rules of one namespace."""

    def trust_rules(self) -> tuple[TrustRule, ...]:
        """All of them, by name."""

    def has_trust_rule(self, id: str) -> bool: ...

    def put_trust_rule(self, rule: TrustRule) -> None:
        """Insert, or replace that of the same name."""

    def drop_trust_rule(self, rule: TrustRule) -> None: ...

    def drop_children(self, parent: str, before: float) -> None:
        """Tokens whose `parent` starts so and that expired before this time."""

"""Rules of trust in memory: the twin of `sql.trust`. Does not belong here: the match with a token's claims."""

from __future__ import annotations

from controlplane.core.model.trust import TrustRule
from tests.property.memory_store.queue import MemoryPart


class MemoryTrustRules(MemoryPart):
    def trust_rules(self) -> tuple[TrustRule, ...]:
        return tuple(sorted(self._space.trust_rules.values(), key=lambda rule: rule.name))

    def has_trust_rule(self, id: str) -> bool:
        return any(rule.id == id for rule in self._space.trust_rules.values())

    def put_trust_rule(self, rule: TrustRule) -> None:
        self._space.trust_rules[rule.name] = rule

    def drop_trust_rule(self, rule: TrustRule) -> None:
        self._space.trust_rules.pop(rule.name, None)

    def drop_children(self, parent: str, before: float) -> None:
        for token in tuple(self._space.tokens.values()):
            if token.parent.startswith(parent) and token.expires is not None and token.expires < before:
                self._space.tokens.pop(token.id, None)

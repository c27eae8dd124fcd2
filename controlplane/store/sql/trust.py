"""Rules of trust. Does not belong here: the match with a token's claims."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Row, delete

from controlplane.core.model.trust import TrustRule
from controlplane.core.rights import TokenScope
from controlplane.store.sql import tables as db
from controlplane.store.sql.base import Part, dump


class SqlTrustRules(Part):
    def trust_rules(self) -> tuple[TrustRule, ...]:
        rows = self._rows_of(db.trust_rules)
        return tuple(sorted((_rule(row) for row in rows), key=lambda rule: rule.name))

    def has_trust_rule(self, id: str) -> bool:
        return self._row_of(db.trust_rules, id=id) is not None

    def put_trust_rule(self, rule: TrustRule) -> None:
        self._upsert(db.trust_rules, [_row(rule)])

    def drop_trust_rule(self, rule: TrustRule) -> None:
        self._delete(db.trust_rules, name=rule.name)

    def drop_children(self, parent: str, before: float) -> None:
        token = db.tokens.c
        is_child = token.parent.startswith(parent, autoescape=True)
        self._change(delete(db.tokens).where(self._mine(db.tokens) & is_child & (token.expires < before)))


def _rule(row: Row[Any]) -> TrustRule:
    claims = {name: tuple(patterns) for name, patterns in json.loads(row.claims).items()}
    within = TokenScope(**{kind: tuple(patterns) for kind, patterns in json.loads(row.narrowed).items()})
    return TrustRule(
        name=row.name,
        id=row.id,
        use=row.use,
        issuer=row.issuer,
        audience=row.audience,
        claims=claims,
        roles=tuple(json.loads(row.roles)),
        within=within,
        ttl_s=row.ttl_s,
        actor=row.actor,
        at=row.at,
    )


def _row(rule: TrustRule) -> dict[str, Any]:
    within = rule.within
    narrowed = {"dataflows": within.dataflows, "datasets": within.datasets, "branches": within.branches}
    return {
        "name": rule.name,
        "id": rule.id,
        "use": rule.use,
        "issuer": rule.issuer,
        "audience": rule.audience,
        "claims": dump(dict(rule.claims)),
        "roles": dump(rule.roles),
        "narrowed": dump(narrowed),
        "ttl_s": rule.ttl_s,
        "actor": rule.actor,
        "at": rule.at,
    }

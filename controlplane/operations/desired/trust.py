"""Trust in issuers of identity tokens: rules, and the tokens that are given to identities that fit
one.

What a rule opens is a token like others, whose parent is the rule: it ends with the rule, at once
and everywhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from controlplane.core import trust_rules
from controlplane.core.errors import NameTaken, NotFound, NotTrusted
from controlplane.core.model import namespaces
from controlplane.core.model.access import Token
from controlplane.core.model.answers.trust import TrustEntry
from controlplane.core.model.json_values import JsonObject
from controlplane.core.model.trust import TrustRule, Use
from controlplane.core.rights import EVERYWHERE, TokenScope
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.desired.tokens import LOGIN, TRUST
from controlplane.ports.issuers import Issuers
from controlplane.ports.store import Tx

KEPT_S = 30 * 86_400.0  # for which tokens that rules opened are listed after their end
PARENT: Mapping[Use, str] = {"login": LOGIN, "exchange": TRUST}
ACTION: Mapping[Use, str] = {"login": "session.login", "exchange": "token.exchange"}


def create(
    ctx: Context,
    name: str,
    use: Use,
    issuer: str,
    claims: Mapping[str, Sequence[str]],
    roles: Sequence[str],
    *,
    audience: str = "",
    within: TokenScope = EVERYWHERE,
    ttl_s: float | None = None,
) -> TrustEntry:
    """A new rule. Raises BadTrust, BadScope, NameTaken."""
    rule = TrustRule(
        name=name,
        id=uuid.uuid4().hex[:12],
        use=use,
        issuer=issuer,
        audience=audience,
        claims={claim: tuple(patterns) for claim, patterns in claims.items()},
        roles=tuple(dict.fromkeys(roles)),
        within=within,
        ttl_s=trust_rules.USUAL_S[use] if ttl_s is None else ttl_s,
        actor=ctx.actor,
        at=0.0,
    )
    with ctx.begin() as tx:
        trust_rules.check(rule, {role.name: role for role in tx.access.roles()})
        if any(other.name == name for other in tx.access.trust_rules()):
            raise NameTaken(
                f"there is a rule {name}; choose another name, or delete that one first"
            )
        made = replace(rule, at=tx.now())
        tx.access.put_trust_rule(made)
        note_change(ctx, tx, "trust.create", made.id, after=_audit_entry(made))
        return _shown(tx, made)


def listing(ctx: Context) -> list[TrustEntry]:
    """All rules, by name."""
    with ctx.read() as tx:
        return [_shown(tx, rule) for rule in tx.access.trust_rules()]


def delete(ctx: Context, name: str) -> None:
    """End a rule, and with it all tokens and sessions that it opened. Raises NotFound."""
    with ctx.begin() as tx:
        rule = next((rule for rule in tx.access.trust_rules() if rule.name == name), None)
        if rule is None:
            raise NotFound(f"there is no rule {name}; `headgate trust list` has them")
        tx.access.drop_trust_rule(rule)
        for token in _opened(tx, rule):
            tx.access.put_token(replace(token, revoked=True))
        note_change(ctx, tx, "trust.delete", rule.id, before=_audit_entry(rule))


# --- what rules open --------------------------------------------------------------------------------


def candidates(ctx: Context, issuers: Issuers, text: str) -> tuple[str, list[str]]:
    """The issuer of a token that a program shows, and the audiences for which rules trust it.
    Verifies nothing yet, and contacts no issuer that no rule names. Raises BadIdentity,
    NotTrusted."""
    named = issuers.named(text)
    if len(named.audiences) > 1:
        raise NotTrusted(
            "this identity token is for several audiences, each of which could show it here"
        )
    with ctx.read() as tx:
        of_issuer = [
            rule
            for rule in tx.access.trust_rules()
            if rule.use == "exchange" and rule.issuer == named.issuer
        ]
    audiences = sorted({rule.audience for rule in of_issuer} & named.audiences)
    if not of_issuer:
        raise NotTrusted(
            f"no rule trusts identity tokens of {named.issuer[:200]!r}: an administrator adds one"
        )
    if not audiences:
        named_audiences = ", ".join(
            repr(audience[:200]) for audience in sorted(named.audiences)[:5]
        )
        raise NotTrusted(
            f"this identity token of {named.issuer} is for {named_audiences}, and no rule is for that audience"
        )
    return named.issuer, audiences


def exchange(
    ctx: Context, issuer: str, audiences: Sequence[str], claims: JsonObject
) -> tuple[str, Token, TrustRule]:
    """A new token, with its text, for the owner of these verified claims. Raises NotTrusted,
    BadIdentity."""
    return _open(ctx, "exchange", issuer, audiences, claims)


def login(ctx: Context, issuer: str, claims: JsonObject, why_not: Callable[[Token], str]) -> Token:
    """The token of a person's session, whose text is never given out. `why_not`: why such a token
    can have no session; empty if it can. Raises NotTrusted, BadIdentity."""
    _, token, _ = _open(ctx, "login", issuer, [""], claims, why_not)
    return token


def _open(
    ctx: Context,
    use: Use,
    issuer: str,
    audiences: Sequence[str],
    claims: JsonObject,
    why_not: Callable[[Token], str] = lambda _: "",
) -> tuple[str, Token, TrustRule]:
    name = trust_rules.who(use, issuer, claims)
    text = tokens.new_text(ctx.namespace)
    with ctx.begin() as tx:
        now = tx.now()
        rules = (
            rule for rule in tx.access.trust_rules() if (rule.use, rule.issuer) == (use, issuer)
        )
        named = {role.name: role for role in tx.access.roles()}
        rule = trust_rules.best(
            (rule for rule in rules if rule.audience in audiences), claims, named
        )
        if rule is None:
            place = (
                "here" if ctx.namespace == namespaces.DEFAULT else f"in namespace {ctx.namespace}"
            )
            raise NotTrusted(
                f"{name} is known to {issuer}, and no rule gives a role {place} ({trust_rules.claims_in_words(claims)})"
            )
        tx.access.drop_children(PARENT[use], now - KEPT_S)
        token = Token(
            namespaces.id_in(ctx.namespace, uuid.uuid4().hex[:12]),
            sha256(text.encode()).digest(),
            name,
            scopes=rule.roles,
            subject=name,
            at=now,
            expires=now + rule.ttl_s,
            within=rule.within,
            parent=PARENT[use] + rule.id,
        )
        if reason := why_not(tokens.with_roles(tx, token)):
            raise NotTrusted(f"{name} {reason}")
        tx.access.put_token(token)
        after: JsonObject = {
            "rule": rule.name,
            "issuer": issuer,
            "roles": [*rule.roles],
            "expires": token.expires,
        }
        named_ctx = replace(ctx, actor=name)
        note_change(
            named_ctx,
            tx,
            ACTION[use],
            token.id,
            after={**after, "claims": trust_rules.audited_claims(rule, claims)},
        )
    return text, token, rule


def _opened(tx: Tx, rule: TrustRule) -> list[Token]:
    """Tokens that have not ended."""
    parent, now = PARENT[rule.use] + rule.id, tx.now()
    return [
        token
        for token in tx.access.tokens()
        if token.parent == parent
        and not token.revoked
        and (token.expires is None or token.expires > now)
    ]


def _shown(tx: Tx, rule: TrustRule) -> TrustEntry:
    return {
        "name": rule.name,
        "use": rule.use,
        "issuer": rule.issuer,
        "audience": rule.audience,
        "claims": {name: list(patterns) for name, patterns in rule.claims.items()},
        "scopes": list(rule.roles),
        "within": tokens.shown(rule.within),
        "ttl_s": rule.ttl_s,
        "by": rule.actor,
        "at": rule.at,
        "open": len(_opened(tx, rule)),
    }


def _audit_entry(rule: TrustRule) -> JsonObject:
    """For the audit."""
    within: JsonObject = {
        kind: [*patterns] for kind, patterns in tokens.patterns(rule.within).items()
    }
    return {
        "name": rule.name,
        "use": rule.use,
        "issuer": rule.issuer,
        "audience": rule.audience,
        "claims": {name: [*patterns] for name, patterns in rule.claims.items()},
        "roles": [*rule.roles],
        "ttl_s": rule.ttl_s,
        **within,
    }

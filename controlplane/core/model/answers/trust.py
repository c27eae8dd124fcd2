"""Answers about rules of trust in issuers of identity tokens."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.upkeep import NewTokenAnswer, WithinAnswer


class TrustEntry(TypedDict):
    """A rule. `use`: `login` of people, or `exchange` by programs. `claims`: by name the patterns,
    one of which has to fit. `ttl_s`: how long what it opens lives. `open`: how many live tokens and
    sessions it has opened."""

    name: str
    use: str
    issuer: str
    audience: str
    claims: dict[str, list[str]]
    scopes: list[str]
    within: WithinAnswer
    ttl_s: float
    by: str
    at: float
    open: int


class TrustAnswer(TypedDict):
    items: list[TrustEntry]
    next: str | None


class ExchangeAnswer(NewTokenAnswer):
    """A token for an identity token, which ends at `expires`. `rule`: the one that gave it."""

    rule: str

"""Rules of trust: whose identity tokens open this installation, and what they may do here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from controlplane.core.rights import Narrowing

Use: TypeAlias = Literal["login", "exchange"]
"""`login`: people who sign in to the pages. `exchange`: programs that show a token of their issuer, such as CI jobs."""


@dataclass(frozen=True, slots=True)
class TrustRule:
    """Tokens of this issuer and audience whose claims fit get these roles. `id` distinguishes it from a later rule of
    the same name.

    `claims`: by name the patterns, one of which the claim has to fit. All named claims have to. `audience` is empty for
    `login`, where it is the service's own client. `ttl_s`: how long what it opens lives at most.
    """

    name: str
    id: str
    use: Use
    issuer: str
    audience: str
    claims: Mapping[str, tuple[str, ...]]
    roles: tuple[str, ...]
    within: Narrowing
    ttl_s: float
    actor: str
    at: float

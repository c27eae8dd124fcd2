"""Rules of trust: which identity tokens this installation accepts, and the roles that they get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from controlplane.core.rights import TokenScope

Use: TypeAlias = Literal["login", "exchange"]
"""`login`: people who sign in to the pages. `exchange`: programs that show a token of their issuer,
such as CI jobs."""


@dataclass(frozen=True, slots=True)
class TrustRule:
    """Tokens of this issuer and audience whose claims fit get these roles. `id` distinguishes it
    from a later rule of the same name.

    `claims`: by name the patterns, one of which the claim has to fit. All named claims have to.
    `audience` is empty for `login`, where it is the service's own client. `ttl_s`: the longest life
    of a token or session that it opens.
    """

    name: str
    id: str
    use: Use
    issuer: str
    audience: str
    claims: Mapping[str, tuple[str, ...]]
    roles: tuple[str, ...]
    within: TokenScope
    ttl_s: float
    actor: str
    at: float

"""What a session may do. One place, so that permissions of tokens change in one place."""

from __future__ import annotations

from controlplane.core import rights
from controlplane.core.model.access import Token
from controlplane.core.rights import Permission

__all__ = ["Permission", "may", "sees_pages"]


def may(token: Token, permission: Permission) -> bool:
    return rights.may(token.principal, permission)


def sees_pages(token: Token) -> bool:
    """Pages tell of the whole installation, so a token that is narrowed to some names sees none."""
    return may(token, "view") and not token.principal.within

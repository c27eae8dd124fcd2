"""The rights of a session. One place, so that permissions of tokens change in one place."""

from __future__ import annotations

from controlplane.core import rights
from controlplane.core.model.access import Token
from controlplane.core.rights import Permission

__all__ = ["Permission", "may", "sees_pages"]


def may(token: Token, permission: Permission, **named: str) -> bool:
    """`named`: a `dataflow`, a `dataset` or a `branch`, as of `core.rights.may`."""
    return rights.may(token.principal, permission, **named)


def sees_pages(token: Token) -> bool:
    """True for a token that may see pages. Pages show no more than the token's names."""
    return may(token, "view")

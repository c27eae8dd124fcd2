"""What a session may do. One function, so that permissions of tokens change in one place."""

from __future__ import annotations

from typing import Literal, TypeAlias

from controlplane.core.model.access import Token

Permission: TypeAlias = Literal["view", "data", "operate", "edit", "admin"]
"""Metadata; records; refresh, retry and pause; blueprints, branches and rollback; tokens and care."""


def may(token: Token, permission: Permission) -> bool:  # noqa: ARG001  # today's scope `admin` has all of them
    return "admin" in token.scopes

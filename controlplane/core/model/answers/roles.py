"""Answers about roles."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12

from controlplane.core.model.answers.upkeep import WithinAnswer


class RoleEntry(TypedDict):
    """A role. `built_in`: one that every namespace has, of which `used_by` is empty. `used_by`: the
    live tokens and the rules of trust that have it, in words."""

    name: str
    permissions: list[str]
    within: WithinAnswer
    built_in: bool
    used_by: list[str]
    by: str
    at: float | None


class RolesAnswer(TypedDict):
    items: list[RoleEntry]
    next: str | None

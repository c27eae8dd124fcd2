"""Roles of a namespace's own."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from fastapi import Path, Response
from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import Called, ClosedBody, JsonAnswer, answer
from controlplane.api.routes.tokens import Within
from controlplane.core import rest
from controlplane.core.model.answers.roles import RoleEntry, RolesAnswer
from controlplane.core.rights import ROLE_NAME, Permission
from controlplane.operations.desired import roles

router = auth.router("admin")
Name: TypeAlias = Annotated[str, Path(pattern=f"^{ROLE_NAME}$")]


class RoleBody(ClosedBody):
    """What a role allows (docs/rights.md), and within which names."""

    permissions: list[Permission] = Field(min_length=1, max_length=5)
    within: Within = Within()


class NewRole(RoleBody):
    """A role and its name."""

    name: str = Field(pattern=f"^{ROLE_NAME}$")


@router.answers(rest.CREATE_ROLE)
def create(call: Called, new: NewRole) -> JsonAnswer[RoleEntry]:
    """Make a role, which tokens and rules of trust name."""

    def work() -> JsonAnswer[RoleEntry]:
        return answer(
            roles.create(call.context, new.name, new.permissions, within=new.within.token_scope()),
            201,
        )

    return call.once(work)


@router.answers(rest.ROLES)
def listing(call: Called) -> JsonAnswer[RolesAnswer]:
    """All roles of the namespace, those that are built in first."""
    return answer({"items": roles.listing(call.context), "next": None})


@router.answers(rest.ROLE)
def show(call: Called, role: Name) -> JsonAnswer[RoleEntry]:
    """A role, and who has it."""
    return answer(roles.show(call.context, role))


@router.answers(rest.CHANGE_ROLE)
def change(call: Called, role: Name, new: RoleBody) -> JsonAnswer[RoleEntry]:
    """What all who have the role may do from now on."""
    return answer(
        roles.change(call.context, role, new.permissions, within=new.within.token_scope())
    )


@router.responds(rest.DELETE_ROLE)
def delete(call: Called, role: Name) -> Response:
    """Delete a role without holders."""
    roles.delete(call.context, role)
    return Response(status_code=204)

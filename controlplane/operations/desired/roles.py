"""Roles of a namespace's own: a name for a set of permissions, which may be narrowed.

Tokens and rules of trust keep the name alone, so a change counts from their next request on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from controlplane.core import rights
from controlplane.core.errors import BadScope, NameTaken, NotFound, RoleInUse
from controlplane.core.model.answers.roles import RoleEntry
from controlplane.core.model.json_values import JsonObject
from controlplane.core.rights import (
    EVERYWHERE,
    NO_ROLES,
    PERMISSIONS,
    ROLES,
    NamedRole,
    Permission,
    TokenScope,
)
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ports.store import Tx

SHOWN = 10  # of those that have a role, in the words of a refusal


def create(
    ctx: Context, name: str, permissions: Sequence[Permission], *, within: TokenScope = EVERYWHERE
) -> RoleEntry:
    """A new role. Raises BadScope, and NameTaken where there is one of this name."""
    with ctx.begin() as tx:
        made = _checked(ctx, tx, name, permissions, within)
        if tx.access.role(name) is not None:
            raise NameTaken(f"there is a role {name}; change it, or choose another name")
        tx.access.put_role(made)
        note_change(ctx, tx, "role.create", name, after=_audit_entry(made))
        return _entry(tx, made)


def change(
    ctx: Context, name: str, permissions: Sequence[Permission], *, within: TokenScope = EVERYWHERE
) -> RoleEntry:
    """Replace the permissions of a role, for all its holders, from now on. Raises NotFound,
    BadScope, and RoleInUse where the new role cannot be combined with a holder's other roles or
    names."""
    with ctx.begin() as tx:
        before = _role_named(tx, name)
        made = _checked(ctx, tx, name, permissions, within)
        _require_fitting(tx, made)
        tx.access.put_role(made)
        note_change(
            ctx, tx, "role.change", name, before=_audit_entry(before), after=_audit_entry(made)
        )
        return _entry(tx, made)


def delete(ctx: Context, name: str) -> None:
    """Raises NotFound, and RoleInUse with those that have it."""
    with ctx.begin() as tx:
        role = _role_named(tx, name)
        if users := _users(tx, name):
            raise RoleInUse(
                f"role {name} is used by {_listed(users)}; revoke or delete these first"
            )
        tx.access.drop_role(name)
        note_change(ctx, tx, "role.delete", name, before=_audit_entry(role))


def listing(ctx: Context) -> list[RoleEntry]:
    """Those that are built in, then the namespace's own by name."""
    with ctx.read() as tx:
        return [*map(_built_in, ROLES), *(_entry(tx, role) for role in tx.access.roles())]


def show(ctx: Context, name: str) -> RoleEntry:
    """Raises NotFound."""
    with ctx.read() as tx:
        return _built_in(name) if name in ROLES else _entry(tx, _role_named(tx, name))


def _role_named(tx: Tx, name: str) -> NamedRole:
    if name in ROLES:
        raise BadScope(
            f"the role {name} is built in, and stays as it is; make one of your own under another name"
        )
    role = tx.access.role(name)
    if role is None:
        raise NotFound(f"there is no role {name[:100]}; `headgate role list` has them")
    return role


def _checked(
    ctx: Context, tx: Tx, name: str, permissions: Sequence[Permission], within: TokenScope
) -> NamedRole:
    granted = rights.implied(permissions) if permissions else frozenset[Permission]()
    made = NamedRole(name, granted, within, actor=ctx.actor, at=tx.now())
    rights.check_role(made)
    return made


def _require_fitting(tx: Tx, role: NamedRole) -> None:
    """Require that holders of the role keep their other scopes and names valid under the new
    role."""
    named = {**{other.name: other for other in tx.access.roles()}, role.name: role}
    unfit: list[str] = []
    for user, roles, within in _holders(tx, role.name):
        try:
            rights.check(roles, within, named)
        except BadScope:
            unfit.append(user)
    if unfit:
        raise RoleInUse(
            f"{_listed(unfit)} has role {role.name} beside other roles or within some names, which a role that is "
            "narrowed or has admin does not go with; revoke or delete these first"
        )


def _users(tx: Tx, name: str) -> list[str]:
    return [user for user, _, _ in _holders(tx, name)]


def _holders(tx: Tx, name: str) -> Iterator[tuple[str, tuple[str, ...], TokenScope]]:
    """In words each live token and rule of trust that has the role; all its roles, and within which
    names."""
    for token in tx.access.tokens():
        if name in token.scopes and tokens.live(tx, token) is not None:
            yield f"token {token.id} {token.name}", token.scopes, token.within
    for rule in tx.access.trust_rules():
        if name in rule.roles:
            yield f"rule of trust {rule.name}", rule.roles, rule.within


def _listed(users: Sequence[str]) -> str:
    rest = f" and {len(users) - SHOWN} more" if len(users) > SHOWN else ""
    return ", ".join(users[:SHOWN]) + rest


def _built_in(name: str) -> RoleEntry:
    return {
        "name": name,
        "permissions": _in_order(rights.permissions_of([name], NO_ROLES)),
        "within": tokens.shown(EVERYWHERE),
        "built_in": True,
        "used_by": [],
        "by": "",
        "at": None,
    }


def _entry(tx: Tx, role: NamedRole) -> RoleEntry:
    return {
        "name": role.name,
        "permissions": _in_order(role.permissions),
        "within": tokens.shown(role.within),
        "built_in": False,
        "used_by": _users(tx, role.name),
        "by": role.actor,
        "at": role.at,
    }


def _in_order(permissions: frozenset[Permission]) -> list[str]:
    return [permission for permission in PERMISSIONS if permission in permissions]


def _audit_entry(role: NamedRole) -> JsonObject:
    """For the audit."""
    within: JsonObject = {
        kind: [*patterns] for kind, patterns in tokens.patterns(role.within).items()
    }
    return {"permissions": [*_in_order(role.permissions)], **within}

"""Rights: permissions, roles that bundle them, and names that they are narrowed to. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias, get_args

from controlplane.core.errors import BadScope

Permission: TypeAlias = Literal["view", "data", "operate", "edit", "admin"]
"""`view`: metadata. `data`: rows. `operate`: refresh, retry, pause. `edit`: blueprints and
branches. `admin`: who may what, and the installation itself."""

PERMISSIONS: Final[tuple[Permission, ...]] = get_args(Permission)

ROLES: Final[Mapping[str, frozenset[Permission]]] = {
    "view": frozenset({"view"}),
    "data": frozenset({"view", "data"}),
    "operate": frozenset({"view", "operate"}),
    "edit": frozenset({"view", "data", "operate", "edit"}),  # a query of one's own reads any row
    "admin": frozenset(PERMISSIONS),
}
"""What a token with a role may do. Each is the name of the permission that it is there for."""

ROLE_NAME: Final = r"[a-z0-9][a-z0-9._-]{0,99}"
"""Of a namespace's own role, which has none of the names of those above, nor `driver`."""


@dataclass(frozen=True, slots=True)
class TokenScope:
    """Patterns of names, with `*` and `?`. A name has to fit one of its kind; a kind without
    patterns has all names."""

    dataflows: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()  # of `dataflow.component`
    branches: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """There may be names outside."""
        return bool(self.dataflows or self.datasets or self.branches)


EVERYWHERE: Final = TokenScope()


@dataclass(frozen=True, slots=True)
class NamedRole:
    """A role of a namespace's own. One that is `within` some names is its holder's only role."""

    name: str
    permissions: frozenset[Permission]
    within: TokenScope
    actor: str
    at: float


Named: TypeAlias = Mapping[str, NamedRole]
NO_ROLES: Final[Named] = {}


@dataclass(frozen=True, slots=True)
class Principal:
    """The author of a request."""

    permissions: frozenset[Permission]
    within: TokenScope = EVERYWHERE


EVERYTHING: Final = Principal(ROLES["admin"])
"""The owner of the installation: who runs commands beside its database."""


def may(
    principal: Principal,
    permission: Permission,
    *,
    dataflow: str | None = None,
    dataset: str | None = None,
    branch: str | None = None,
) -> bool:
    """Whether it has the permission for the named dataflow, dataset and branch. A parameter that is
    None is not checked.

    `dataset`: as `dataflow.component`. `dataflow`: all of it, so datasets that are named one by one
    do not open it.
    """
    if permission not in principal.permissions:
        return False
    within = principal.within
    if branch is not None and not _fits(branch, within.branches):
        return False
    if dataset is not None and not _has_dataset(within, dataset):
        return False
    return dataflow is None or _has_dataflow(within, dataflow)


def _has_dataset(within: TokenScope, dataset: str) -> bool:
    flow = dataset.partition(".")[0]
    return _fits(flow, within.dataflows) and _fits(dataset, within.datasets)


def _has_dataflow(within: TokenScope, dataflow: str) -> bool:
    wholes = tuple(
        pattern.removesuffix(".*") for pattern in within.datasets if _is_of_wholes(pattern)
    )
    is_whole = not within.datasets or _fits_any(dataflow, wholes)
    return is_whole and _fits(dataflow, within.dataflows)


def may_see_part(principal: Principal, dataflow: str) -> bool:
    """Whether there may be a dataset in it that it sees."""
    within = principal.within
    flows = tuple(pattern.partition(".")[0] for pattern in within.datasets)
    return (
        _fits(dataflow, within.dataflows)
        and _fits(dataflow, flows)
        and "view" in principal.permissions
    )


def _is_of_wholes(pattern: str) -> bool:
    """`*` and `shop.*` are patterns of whole dataflows, `shop.o*` is not."""
    return pattern == "*" or pattern.endswith(".*")


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or _fits_any(name, patterns)


def _fits_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def permissions_of(roles: Iterable[str], named: Named = NO_ROLES) -> frozenset[Permission]:
    """All that these roles allow together; words that are no roles allow nothing."""
    return frozenset().union(*(_allowed(role, named) for role in roles))


def _allowed(role: str, named: Named) -> frozenset[Permission]:
    if role in ROLES:
        return ROLES[role]
    return named[role].permissions if role in named else frozenset()


def implied(permissions: Iterable[Permission]) -> frozenset[Permission]:
    """With those that they come to anyhow: a query of one's own reads any row, who administers may
    give himself any permission, and nothing can be done with what cannot be seen."""
    requested = frozenset(permissions)
    if "admin" in requested:
        return ROLES["admin"]
    return requested | ROLES["view"] | (ROLES["data"] if "edit" in requested else frozenset())


def is_role_name(text: str) -> bool:
    """Whether a namespace's own role may have this name."""
    return (
        text not in ROLES
        and text != "driver"
        and re.fullmatch(ROLE_NAME, text, re.ASCII) is not None
    )


def principal_of(roles: tuple[str, ...], within: TokenScope, named: Named) -> Principal:
    """What these roles come to, within these names. A narrowed role that is not alone gives
    nothing."""
    narrowed = [named[role].within for role in roles if role in named and named[role].within]
    if narrowed and (len(roles) > 1 or within):
        return Principal(frozenset())
    return Principal(permissions_of(roles, named), narrowed[0] if narrowed else within)


_FLOW, _DATASET = (
    re.compile(r"[a-z0-9_*?]{1,200}"),
    re.compile(r"\*|[a-z0-9_*?]{1,200}\.[a-z0-9_*?]{1,200}"),
)
_BRANCH = re.compile(r"[a-z0-9._*?-]{1,100}")


def check(roles: Collection[str], within: TokenScope, named: Named = NO_ROLES) -> None:
    """Raises BadScope for a malformed pattern or an unknown role, and for roles that cannot be
    narrowed.

    `named`: roles of the namespace, by name.
    """
    for role in roles:
        if role not in ROLES and role != "driver" and role not in named:
            raise BadScope(
                f"there is no role {role[:100]!r}; there are {', '.join([*ROLES, *sorted(named)])}"
            )
        if role in named and named[role].within and (len(roles) > 1 or within):
            raise BadScope(
                f"the role {role} is narrowed itself, so it is given alone, and not narrowed again"
            )
    if within and ("driver" in roles or "admin" in permissions_of(roles, named)):
        raise BadScope(
            "the roles admin and driver are of the whole installation; take view, data, operate or edit"
        )
    check_patterns(within)


def check_role(role: NamedRole) -> None:
    """Raises BadScope."""
    if not is_role_name(role.name):
        reserved = f"{', '.join(ROLES)} and driver are built in"
        like = "write small letters, digits and ._- such as analyst"
        raise BadScope(f"{role.name[:100]!r} is no name of a role of yours: {reserved}; {like}")
    if not role.permissions:
        raise BadScope(f"a role has one permission or more of {', '.join(PERMISSIONS)}")
    if role.within and "admin" in role.permissions:
        raise BadScope(
            "a role with the permission admin is of the whole namespace, and cannot be narrowed"
        )
    check_patterns(role.within)


def check_patterns(within: TokenScope) -> None:
    """Raises BadScope for a malformed pattern."""
    kinds = (("dataflow", within.dataflows, _FLOW), ("dataset", within.datasets, _DATASET))
    for kind, patterns, form in (*kinds, ("branch", within.branches, _BRANCH)):
        for pattern in patterns:
            if not form.fullmatch(pattern):
                like = {
                    "dataflow": "sales or sales_*",
                    "dataset": "sales.orders or sales.*",
                    "branch": "main or pr-*",
                }
                raise BadScope(
                    f"{pattern[:100]!r} is no pattern of a {kind}; write one such as {like[kind]}"
                )

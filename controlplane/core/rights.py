"""Who may do what: permissions, roles that bundle them, and names that they are narrowed to. Pure.

Does not belong here: who has which token (`core.model.access`), and which route needs what (`api.auth`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias, get_args

from controlplane.core.errors import BadScope

Permission: TypeAlias = Literal["view", "data", "operate", "edit", "admin"]
"""`view`: metadata. `data`: rows. `operate`: refresh, retry, pause. `edit`: blueprints and branches. `admin`: who may
what, and the installation itself."""

PERMISSIONS: Final[tuple[Permission, ...]] = get_args(Permission)

ROLES: Final[Mapping[str, frozenset[Permission]]] = {
    "view": frozenset({"view"}),
    "data": frozenset({"view", "data"}),
    "operate": frozenset({"view", "operate"}),
    "edit": frozenset({"view", "data", "operate", "edit"}),  # a query of one's own reads any row
    "admin": frozenset(PERMISSIONS),
}
"""What a token with a role may do. Each is the name of the permission that it is there for."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Patterns of names, with `*` and `?`. A name has to fit one of its kind; a kind without patterns has all names."""

    dataflows: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()  # of `dataflow.component`
    branches: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """There may be names outside."""
        return bool(self.dataflows or self.datasets or self.branches)


EVERYWHERE: Final = Narrowing()


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who asks."""

    permissions: frozenset[Permission]
    within: Narrowing = EVERYWHERE


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
    """Whether it has the permission for what is named. What is not named is not looked at.

    `dataset`: as `dataflow.component`. `dataflow`: all of it, so datasets that are named one by one do not open it.
    """
    if permission not in principal.permissions:
        return False
    within = principal.within
    if branch is not None and not _fits(branch, within.branches):
        return False
    if dataset is not None and not _has_dataset(within, dataset):
        return False
    return dataflow is None or _has_dataflow(within, dataflow)


def _has_dataset(within: Narrowing, dataset: str) -> bool:
    flow = dataset.partition(".")[0]
    return _fits(flow, within.dataflows) and _fits(dataset, within.datasets)


def _has_dataflow(within: Narrowing, dataflow: str) -> bool:
    wholes = tuple(pattern.removesuffix(".*") for pattern in within.datasets if _is_of_wholes(pattern))
    is_whole = not within.datasets or _fits_any(dataflow, wholes)
    return is_whole and _fits(dataflow, within.dataflows)


def may_see_part(principal: Principal, dataflow: str) -> bool:
    """Whether there may be a dataset in it that it sees."""
    within = principal.within
    flows = tuple(pattern.partition(".")[0] for pattern in within.datasets)
    return _fits(dataflow, within.dataflows) and _fits(dataflow, flows) and "view" in principal.permissions


def _is_of_wholes(pattern: str) -> bool:
    """`*` and `shop.*` are patterns of whole dataflows, `shop.o*` is not."""
    return pattern == "*" or pattern.endswith(".*")


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or _fits_any(name, patterns)


def _fits_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def permissions_of(roles: Iterable[str]) -> frozenset[Permission]:
    """All that these roles allow together; words that are no roles allow nothing."""
    return frozenset().union(*(ROLES.get(role, frozenset()) for role in roles))


_FLOW, _DATASET = re.compile(r"[a-z0-9_*?]{1,200}"), re.compile(r"\*|[a-z0-9_*?]{1,200}\.[a-z0-9_*?]{1,200}")
_BRANCH = re.compile(r"[a-z0-9._*?-]{1,100}")


def check(roles: Iterable[str], within: Narrowing) -> None:
    """Raises BadScope for what is no pattern, and for roles that cannot be narrowed."""
    if within and {"admin", "driver"} & set(roles):
        raise BadScope("the roles admin and driver are of the whole installation; take view, data, operate or edit")
    kinds = (("dataflow", within.dataflows, _FLOW), ("dataset", within.datasets, _DATASET))
    for kind, patterns, form in (*kinds, ("branch", within.branches, _BRANCH)):
        for pattern in patterns:
            if not form.fullmatch(pattern):
                like = {"dataflow": "sales or sales_*", "dataset": "sales.orders or sales.*", "branch": "main or pr-*"}
                raise BadScope(f"{pattern[:100]!r} is no pattern of a {kind}; write one such as {like[kind]}")

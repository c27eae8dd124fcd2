"""Who may do what: permissions, roles that bundle them, and names that they are narrowed to. Pure.

Does not belong here: who has which token (`core.model.access`), and which route needs what (`api.auth`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias, get_args

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
class Principal:
    """Somebody who asks. The names are patterns with `*` and `?`; none narrow nothing. All of them have to fit."""

    permissions: frozenset[Permission]
    dataflows: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()  # of `dataflow.component`
    branches: tuple[str, ...] = ()

    @property
    def is_narrowed(self) -> bool:
        """There may be names that it must not see."""
        return bool(self.dataflows or self.datasets or self.branches)


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
    if branch is not None and not _fits(branch, principal.branches):
        return False
    if dataset is not None and not _has_dataset(principal, dataset):
        return False
    return dataflow is None or _has_dataflow(principal, dataflow)


def _has_dataset(principal: Principal, dataset: str) -> bool:
    flow = dataset.partition(".")[0]
    return _fits(flow, principal.dataflows) and _fits(dataset, principal.datasets)


def _has_dataflow(principal: Principal, dataflow: str) -> bool:
    wholes = tuple(pattern.removesuffix(".*") for pattern in principal.datasets if _is_of_wholes(pattern))
    is_whole = not principal.datasets or _fits_any(dataflow, wholes)
    return is_whole and _fits(dataflow, principal.dataflows)


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

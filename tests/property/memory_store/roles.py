"""Roles of namespaces in memory: the twin of `sql.roles`. Does not belong here: the permissions that they grant."""

from __future__ import annotations

from controlplane.core.rights import NamedRole
from tests.property.memory_store.queue import MemoryPart


class MemoryRoles(MemoryPart):
    def roles(self) -> tuple[NamedRole, ...]:
        return tuple(sorted(self._space.roles.values(), key=lambda role: role.name))

    def role(self, name: str) -> NamedRole | None:
        return self._space.roles.get(name)

    def put_role(self, role: NamedRole) -> None:
        self._space.roles[role.name] = role

    def drop_role(self, name: str) -> None:
        self._space.roles.pop(name, None)

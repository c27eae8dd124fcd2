"""Namespaces in memory: the twin of `sql.namespaces`. Does not belong here: who may make or delete one."""

from __future__ import annotations

from controlplane.core.model.namespaces import Namespace
from tests.property.memory_store.queue import MemoryPart
from tests.property.memory_store.tables import NamespaceTables


class MemoryNamespaces(MemoryPart):
    def namespaces(self) -> tuple[Namespace, ...]:
        return tuple(sorted(self._space.namespaces.values(), key=lambda one: one.name))

    def put_namespace(self, namespace: Namespace) -> None:
        self._space.namespaces[namespace.name] = namespace

    def is_in_use(self, namespace: str) -> bool:
        space = self.spaces.get(namespace, NamespaceTables())
        has_flows = any(is_live for _, is_live in space.dataflows.values())
        return has_flows or bool(space.branches) or bool(space.attempts)

    def empty_namespace(self, namespace: str) -> None:
        self.dropped.add(namespace)

"""Committed rows without a home."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controlplane.core.schema.ddl_schemas import parse_ddl
from controlplane.services.examples.making import Rows
from dataplane.contract.schemas import Json, Schema


class InMemory:
    """Committed rows, by dataset and partition."""

    def __init__(self, rows: Mapping[str, Mapping[str, Rows]], schemas: Mapping[str, str]) -> None:
        self._rows, self._schemas = rows, schemas

    def schema(self, dataset: str) -> Schema | None:
        return parse_ddl(self._schemas[dataset]) if dataset in self._schemas else None

    def has(self, dataset: str, partition: str) -> bool:
        return partition in self._rows.get(dataset, {})

    def rows(self, dataset: str, partition: str | None) -> Iterator[dict[str, Json]]:
        for key, rows in self._rows[dataset].items():
            yield from rows if partition in (None, key) else ()

    def before(self, dataset: str, partition: str) -> str | None:
        return max((key for key in self._rows.get(dataset, {}) if key < partition), default=None)

    def some(self, dataset: str) -> list[str]:
        return sorted(self._rows.get(dataset, {}))[:3]

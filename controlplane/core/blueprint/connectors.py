"""The connectors beside `files`, each a module of its own with its keys: the one place where they
are registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from controlplane.core.blueprint import (
    delta,
    dlt,
    feed,
    iceberg,
    jdbc,
    kafka,
    python,
    spark_sources,
)
from controlplane.core.blueprint.common_keys import section
from controlplane.core.blueprint.model import Read, Write
from controlplane.core.blueprint.section_keys import Fields, Key, Nested
from controlplane.core.blueprint.value_kinds import JsonSchema, Reading, entries_of
from controlplane.core.blueprint.yaml_nodes import Node, Scalar

T = TypeVar("T")

PLACES: Mapping[str, str] = MappingProxyType(
    {
        "files": "Files in a folder or an object store.",
        "delta": "A Delta table.",
        "iceberg": "A table of Apache Iceberg.",
        "jdbc": "A table of a database.",
        "kafka": "A topic of Kafka.",
        "python": "A source that Python code lists and reads.",
        "dlt": "A resource of the library dlt: a REST API or a service.",
        "spark": "A data source of Spark by its name, or a DataSource class in Python.",
        "feed": "A dataset that another dataflow or namespace offers.",
    }
)

READS: Mapping[str, Nested[Read]] = MappingProxyType(
    {
        "delta": delta.READ,
        "iceberg": iceberg.READ,
        "jdbc": jdbc.READ,
        "kafka": kafka.READ,
        "python": python.READ,
        "dlt": dlt.READ,
        "spark": spark_sources.READ,
        "feed": feed.READ,
    }
)
WRITES: Mapping[str, Nested[Write]] = MappingProxyType(
    {"delta": delta.WRITE, "jdbc": jdbc.WRITE, "kafka": kafka.WRITE}
)


@dataclass(frozen=True, slots=True)
class ByConnector(Generic[T]):
    """A section whose `connector` says which keys it has; `files` where it says nothing that is
    known."""

    sections: Mapping[str, Nested[T]]

    def read(self, node: Node, reading: Reading) -> T:
        named = entries_of(node, reading).get("connector")
        name = named.text if isinstance(named, Scalar) else "files"
        return self.sections.get(name, self.sections["files"]).read(node, reading)

    def schema(self) -> JsonSchema:
        return {
            "type": "object",
            "oneOf": [_only(name, kind.schema()) for name, kind in self.sections.items()],
        }


def _only(connector: str, schema: JsonSchema) -> JsonSchema:
    named = {"const": connector, "description": PLACES[connector]}
    return {**schema, "properties": {**schema["properties"], "connector": named}}


def by_connector(
    others: Mapping[str, Nested[T]],
    keys: tuple[Key[object], ...],
    build: Callable[[Fields, Reading], T],
) -> ByConnector[T]:
    """`keys` and `build` are those of `files`."""
    return ByConnector({"files": Nested(section(keys), build), **others})

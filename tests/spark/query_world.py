"""A dataset of a few rows, and a process that answers queries of it by Spark. It is one for all
tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controlplane.services.queries.adapter.spark import SparkPool
from controlplane.services.queries.queries import Queries
from tests.unit.queries.world import World


class SparkWorld(World):
    """Asks Spark unless told otherwise."""

    def __init__(self, folder: Path, **bounds: int) -> None:
        super().__init__(folder)
        self.spark = SparkPool(str(folder), self.pool, **bounds)
        self.queries = Queries(self.pool, self.queries.results, spark=self.spark)

    def ask(self, sql: str, parameters: Any = None, *, branch: str = "main", **more: Any) -> Any:
        return super().ask(sql, parameters, branch=branch, **{"engine": "spark", **more})

    def arrow(self, sql: str, **more: Any) -> Any:
        return super().arrow(sql, **{"engine": "spark", **more})


@contextmanager
def spark_world_in(folder: Path, **bounds: int) -> Iterator[SparkWorld]:
    world = SparkWorld(folder, **bounds)
    try:
        yield world
    finally:
        world.spark.close()
        world.pool.close()
        world.store.close()

"""Queries, records, changes and differences of rows, as the API is given them.

DuckDB runs in processes beside the service. Spark runs where the settings allow it; else a query
gets the reason."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.settings import Settings

if TYPE_CHECKING:
    from controlplane.ports.records import RenderChanges, RenderRecords
    from controlplane.ports.row_diff import CompareRows
    from controlplane.services.queries.adapter.query_pool import QueryPool
    from controlplane.services.queries.port import QueryEngine
    from controlplane.services.queries.queries import Queries

NO_QUERIES = (
    "queries by Spark need a process beside the service, which HEADGATE_POOL=local has; here the pool is {pool}: "
    "ask DuckDB, or make a transform of the query"
)
NO_QUERIES_POD = (
    "queries by Spark have a pod of their own on Kubernetes: add `queries` to the pools file; until then ask DuckDB, "
    "or make a transform of the query"
)
NOT_THE_SERVICE = "queries by Spark are answered by the service that runs in the cluster: ask it, or ask DuckDB here"


def queries(
    settings: Settings,
    results: Path,
    secret: Callable[[], bytes],
    ends: ExitStack,
    *,
    is_service: bool,
) -> Queries:
    """Engines have processes once there is a query, which `ends` ends; a pod stays until it is
    idle. `results`: the folder of results that are kept. `secret`: the installation's."""
    from controlplane.services.queries.adapter.query_memory import memory_bytes
    from controlplane.services.queries.adapter.query_pool import QueryPool
    from controlplane.services.queries.adapter.result_folder import ResultFolder
    from controlplane.services.queries.queries import Queries

    pool = QueryPool(settings.lake, each=settings.queries_per_user, memory_bytes=memory_bytes())
    ends.callback(pool.close)
    spark = _spark(settings, pool, secret, ends, is_service=is_service)
    return Queries(pool, ResultFolder(results), spark=spark)


def _spark(
    settings: Settings,
    shared: QueryPool,
    secret: Callable[[], bytes],
    ends: ExitStack,
    *,
    is_service: bool,
) -> QueryEngine:
    from controlplane.services.queries.adapter.spark import SparkPool
    from controlplane.services.queries.port import NoEngine

    if settings.pool == "kubernetes":
        return (
            _spark_pods(settings, shared, secret, ends) if is_service else NoEngine(NOT_THE_SERVICE)
        )
    if settings.pool != "local":
        return NoEngine(NO_QUERIES.format(pool=settings.pool))
    pool = SparkPool(settings.lake, shared)
    ends.callback(pool.close)
    return pool


def _spark_pods(
    settings: Settings, shared: QueryPool, secret: Callable[[], bytes], ends: ExitStack
) -> QueryEngine:
    from controlplane.drivers.cluster_settings import api_of, read_pools
    from controlplane.services.queries.port import NoEngine

    cluster = read_pools(settings)
    if cluster.queries is None:
        return NoEngine(NO_QUERIES_POD)
    open_api = api_of(cluster, settings)
    from controlplane.services.queries.adapter.kubernetes_query_pods import KubernetesQueryPods
    from controlplane.services.queries.adapter.spark_pod_pool import SparkPodPool

    pool = SparkPodPool(
        settings.lake, shared, KubernetesQueryPods(cluster, settings.lake, secret(), open_api)
    )
    ends.callback(pool.close)
    return pool


def records(lake: str, ends: ExitStack) -> RenderRecords:
    """It has processes once records are read, which `ends` ends."""
    from controlplane.services.queries.adapter.query_memory import memory_bytes
    from controlplane.services.queries.adapter.record_streams import RecordPool, RecordRenderer

    pool = RecordPool(lake, memory_bytes=memory_bytes())
    ends.callback(pool.close)
    return RecordRenderer(pool)


def changes(lake: str, stopping: threading.Event) -> RenderChanges:
    from controlplane.services.queries.adapter.change_renderer import ChangeRenderer

    return ChangeRenderer(lake, stopping)


def comparison(lake: str, stopping: threading.Event) -> CompareRows:
    from controlplane.services.queries.adapter.row_comparison import RowComparer

    return RowComparer(lake, stopping)

"""Which engine of Spark a service has: a process beside it, pods of a cluster, or none, with the reason why."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from controlplane.settings import BadSetting, Settings

if TYPE_CHECKING:
    from controlplane.drivers.cluster import Api
    from controlplane.drivers.pools import Cluster
    from controlplane.lake.queries.pool import QueryPool
    from controlplane.operations.inspect.spark_sessions import SparkSessions
    from controlplane.ports.examples import ExampleRunner
    from controlplane.ports.queries import QueryEngine
    from controlplane.ports.spark_sessions import SparkServers
    from controlplane.ports.store import Store

LOOKS_S = 1.0  # between looks at the tokens of sessions
NO_QUERIES = (
    "queries by Spark need a process beside the service, which HEADGATE_POOL=local has; here the pool is {pool}: "
    "ask DuckDB, or make a transform of the query"
)
NO_QUERIES_POD = (
    "queries by Spark have a pod of their own on Kubernetes: add `queries` to the pools file; until then ask DuckDB, "
    "or make a transform of the query"
)
NOT_THE_SERVICE = "queries by Spark are answered by the service that runs in the cluster: ask it, or ask DuckDB here"
NO_SESSIONS = (
    "Spark sessions run code of their users in a process of the service's user, which HEADGATE_POOL=local allows "
    "without HEADGATE_DRIVER_USER: read the datasets with your own Spark through the S3 view"
)
NO_SESSION_PODS = (
    "Spark sessions have pods of their own on Kubernetes: add `sessions` to the pools file; until then read the "
    "datasets with your own Spark through the S3 view"
)
NO_SESSION_SERVICE = "Spark sessions are opened by the service that runs in the cluster: ask it"


def queries(
    settings: Settings, shared: QueryPool, secret: Callable[[], bytes], ends: ExitStack, *, is_service: bool
) -> QueryEngine:
    """It has a process once there is a query for Spark, which `ends` ends; a pod stays until it is idle. `secret`: the
    installation's."""
    from controlplane.lake.queries.spark import SparkPool
    from controlplane.ports.queries import NoEngine

    if settings.pool == "kubernetes":
        return _pod_queries(settings, shared, secret, ends) if is_service else NoEngine(NOT_THE_SERVICE)
    if settings.pool != "local":
        return NoEngine(NO_QUERIES.format(pool=settings.pool))
    pool = SparkPool(settings.lake, shared)
    ends.callback(pool.close)
    return pool


def _pod_queries(settings: Settings, shared: QueryPool, secret: Callable[[], bytes], ends: ExitStack) -> QueryEngine:
    from controlplane.ports.queries import NoEngine

    cluster = read_pools(settings)
    if cluster.queries is None:
        return NoEngine(NO_QUERIES_POD)
    open_api = api_of(cluster, settings)
    from controlplane.drivers.query_pods import KubernetesQueryPods
    from controlplane.lake.queries.pods import SparkPodPool

    pool = SparkPodPool(settings.lake, shared, KubernetesQueryPods(cluster, settings.lake, secret(), open_api))
    ends.callback(pool.close)
    return pool


def sessions(settings: Settings, store: Store, ends: ExitStack, *, is_service: bool) -> SparkServers:
    """It has a process for each session, which `ends` ends, or a pod, which stays."""
    from controlplane.lake.spark_servers import LocalServers
    from controlplane.ports.spark_sessions import NoServers

    if settings.pool == "kubernetes":
        return _session_pods(settings, store, ends) if is_service else NoServers(NO_SESSION_SERVICE)
    if settings.pool != "local" or settings.driver_user is not None:
        return NoServers(NO_SESSIONS)
    servers = LocalServers(settings.lake)
    ends.callback(servers.close)
    return servers


def _session_pods(settings: Settings, store: Store, ends: ExitStack) -> SparkServers:
    from controlplane.operations.inspect.spark_sessions import SparkSessions
    from controlplane.ports.spark_sessions import NoServers

    cluster = read_pools(settings)
    if cluster.sessions is None:
        return NoServers(NO_SESSION_PODS)
    open_api = api_of(cluster, settings)
    from controlplane.drivers.session_pods import KubernetesSessionPods
    from controlplane.lake.session_pods import PodServers

    servers = PodServers(KubernetesSessionPods(cluster, settings.lake, open_api))
    ends.callback(servers.close)
    ended = threading.Event()
    ends.callback(ended.set)
    watching = (store, SparkSessions(servers), ended)
    threading.Thread(target=_end_without_token, args=watching, name="sessions", daemon=True).start()
    return servers


def _end_without_token(store: Store, sessions: SparkSessions, ended: threading.Event) -> None:
    """Sessions outlive the process that opened them, and not their token: every replica looks. A failed call is
    repeated at the next look."""
    from controlplane.core.errors import HeadgateError
    from controlplane.operations.inspect.spark_sessions import end_without_token

    while not ended.wait(LOOKS_S):
        with suppress(HeadgateError, OSError):
            end_without_token(store, sessions)


def examples(settings: Settings, ends: ExitStack, *, is_service: bool) -> ExampleRunner:
    """It has a process once there is a question, which `ends` ends. It runs code of users as this process's user, so
    there is none where drivers have another one."""
    from controlplane.ports.examples import NoExamples

    if not is_service or settings.pool != "local" or settings.driver_user is not None:
        return NoExamples()
    from controlplane.drivers.shared_examples import SharedExamples

    shared = SharedExamples(settings.driver_idle_s)
    ends.callback(shared.close)
    return shared


def api_of(cluster: Cluster, settings: Settings) -> Callable[[], Api]:
    """Opens the cluster's API. Raises MissingPackage where the client is not installed."""
    from controlplane.core.errors import MissingPackage

    try:
        from controlplane.drivers.cluster import Api
    except ModuleNotFoundError as e:
        raise MissingPackage("a pool on Kubernetes", e.name, "kubernetes") from e
    return partial(Api.open, cluster.namespace, settings.kubeconfig)


def read_pools(settings: Settings) -> Cluster:
    from controlplane.drivers import pools

    if settings.pools is None:
        raise BadSetting("HEADGATE_POOL is 'kubernetes'; HEADGATE_POOLS must name a file that describes its pools")
    try:
        return pools.read(settings.pools.read_text(encoding="utf-8"))
    except (OSError, pools.BadPools) as e:
        raise BadSetting(f"HEADGATE_POOLS: {settings.pools}: {e}") from e

"""Spark Connect sessions, as the API is given them: processes beside the service, pods of a
cluster, or the reason why there are none."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from controlplane.settings import Settings

if TYPE_CHECKING:
    from controlplane.ports.store import Store
    from controlplane.services.sessions.port import SparkServers
    from controlplane.services.sessions.sessions import SparkSessions

PROBE_S = 1.0  # between looks at the tokens of sessions
NO_SESSIONS = (
    "Spark sessions run code of their users in a process of the service's user, which HEADGATE_POOL=local allows "
    "without HEADGATE_DRIVER_USER: read the datasets with your own Spark through the S3 view"
)
NO_SESSION_PODS = (
    "Spark sessions have pods of their own on Kubernetes: add `sessions` to the pools file; until then read the "
    "datasets with your own Spark through the S3 view"
)
NO_SESSION_SERVICE = "Spark sessions are opened by the service that runs in the cluster: ask it"


def sessions(
    settings: Settings, store: Store, ends: ExitStack, *, is_service: bool
) -> SparkSessions:
    """Each session has a process, which `ends` ends, or a pod, which stays."""
    from controlplane.services.sessions.sessions import SparkSessions

    return SparkSessions(_servers(settings, store, ends, is_service=is_service))


def _servers(
    settings: Settings, store: Store, ends: ExitStack, *, is_service: bool
) -> SparkServers:
    from controlplane.services.sessions.adapter.servers import LocalServers
    from controlplane.services.sessions.port import NoServers

    if settings.pool == "kubernetes":
        return _pods(settings, store, ends) if is_service else NoServers(NO_SESSION_SERVICE)
    if settings.pool != "local" or settings.driver_user is not None:
        return NoServers(NO_SESSIONS)
    servers = LocalServers(settings.lake)
    ends.callback(servers.close)
    return servers


def _pods(settings: Settings, store: Store, ends: ExitStack) -> SparkServers:
    from controlplane.drivers.cluster_settings import api_of, read_pools
    from controlplane.services.sessions.port import NoServers
    from controlplane.services.sessions.sessions import SparkSessions

    cluster = read_pools(settings)
    if cluster.sessions is None:
        return NoServers(NO_SESSION_PODS)
    open_api = api_of(cluster, settings)
    from controlplane.services.sessions.adapter.kubernetes_session_pods import KubernetesSessionPods
    from controlplane.services.sessions.adapter.session_pods import PodServers

    servers = PodServers(KubernetesSessionPods(cluster, settings.lake, open_api))
    ends.callback(servers.close)
    ended = threading.Event()
    ends.callback(ended.set)
    watching = (store, SparkSessions(servers), ended)
    threading.Thread(target=_end_without_token, args=watching, name="sessions", daemon=True).start()
    return servers


def _end_without_token(store: Store, sessions: SparkSessions, ended: threading.Event) -> None:
    """Sessions outlive the process that opened them, and not their token: every replica looks. A
    failed call is repeated at the next look."""
    from controlplane.core.errors import HeadgateError
    from controlplane.services.sessions.sessions import end_without_token

    while not ended.wait(PROBE_S):
        with suppress(HeadgateError, OSError):
            end_without_token(store, sessions)

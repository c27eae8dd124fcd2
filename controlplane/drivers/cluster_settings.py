"""The cluster that the settings name: its pools file, and its API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from controlplane.settings import BadSetting, Settings

if TYPE_CHECKING:
    from controlplane.drivers.cluster import Api
    from controlplane.drivers.pools import Cluster


def read_pools(settings: Settings) -> Cluster:
    """Raises BadSetting where the file is missing or wrong."""
    from controlplane.drivers import pools

    if settings.pools is None:
        raise BadSetting(
            "HEADGATE_POOL is 'kubernetes'; HEADGATE_POOLS must name a file that describes its pools"
        )
    try:
        return pools.read(settings.pools.read_text(encoding="utf-8"))
    except (OSError, pools.BadPools) as e:
        raise BadSetting(f"HEADGATE_POOLS: {settings.pools}: {e}") from e


def api_of(cluster: Cluster, settings: Settings) -> Callable[[], Api]:
    """Opens the cluster's API. Raises MissingPackage where the client is not installed."""
    from controlplane.core.errors import MissingPackage

    try:
        from controlplane.drivers.cluster import Api
    except ModuleNotFoundError as e:
        raise MissingPackage("a pool on Kubernetes", e.name, "kubernetes") from e
    return partial(Api.open, cluster.namespace, settings.kubeconfig)

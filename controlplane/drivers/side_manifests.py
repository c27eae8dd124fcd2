"""Pods that are neither drivers nor workers, as plain JSON: the common parts of query and session
pods.

Their labels are not those of drivers and workers, which are no business of theirs.
"""

from __future__ import annotations

import json

from controlplane.drivers.manifests import (
    CONTAINER,
    GIVEN,
    HEAP,
    HOME,
    POD_SECURITY,
    UNPRIVILEGED,
    mounts,
    placed,
)
from controlplane.drivers.pod_kinds import Manifest, PodKind
from controlplane.drivers.pools import Cluster, QueriesPod

GRACE_S = 5
DISK_BYTES = 4 << 30


def spec(cluster: Cluster, settings: QueriesPod, lake: str, kind: PodKind, name: str) -> Manifest:
    """The spec of a Job's pod. `name`: of its Secret."""
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": [_container(cluster, settings, lake, kind)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "home", "emptyDir": {}},
            {"name": "given", "secret": {"secretName": name, "defaultMode": 0o440}},
        ],
        **placed(settings.place),
    }


def _container(cluster: Cluster, settings: QueriesPod, lake: str, kind: PodKind) -> Manifest:
    secrets = cluster.env_secrets if settings.env_secrets is None else settings.env_secrets
    return {
        "name": CONTAINER,
        "image": cluster.image,
        # They end processes, whose own it takes up
        "command": ["tini", "--", "python3", "-P", "-m", "dataplane"],
        "args": [kind.component],
        "env": [
            {"name": name, "value": value} for name, value in _env(cluster, settings, lake).items()
        ],
        "envFrom": [{"secretRef": {"name": name}} for name in secrets],
        "ports": [{"containerPort": settings.port}],
        "resources": {
            "requests": {"cpu": settings.cpu, "memory": settings.memory},
            "limits": {"memory": settings.memory},
        },
        "securityContext": UNPRIVILEGED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts({"tmp": "/tmp", "home": HOME})
        + mounts({"given": GIVEN}, is_read_only=True),
    }


def _env(cluster: Cluster, settings: QueriesPod, lake: str) -> dict[str, str]:
    values = {
        "HEADGATE_TOKEN_FILE": f"{GIVEN}/token",
        "HEADGATE_LAKE": lake,
        "HEADGATE_PORT": str(settings.port),
        "HEADGATE_IDLE_S": str(settings.idle_s),
        "HEADGATE_MEMORY_BYTES": str(int(settings.memory_mib * HEAP) << 20),
        "HEADGATE_DISK_BYTES": str(DISK_BYTES),
        "HEADGATE_SPARK_CONF": json.dumps(dict(cluster.conf), sort_keys=True),
    }
    return {**cluster.env, **values}

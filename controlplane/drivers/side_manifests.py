"""Pods that are neither drivers nor workers, as plain JSON: the common parts of query and session pods.

Their labels are not those of drivers and workers, which are no business of theirs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from controlplane.drivers.manifests import (
    CONTAINER,
    GIVEN,
    HEAP,
    HOME,
    POD_SECURITY,
    UNPRIVILEGED,
    Manifest,
    common_labels,
    mounts,
    placed,
)
from controlplane.drivers.pools import Cluster, QueriesPod

GRACE_S = 5
DISK_BYTES = 4 << 30
COMPONENT = "app.kubernetes.io/component"
MANAGER = "app.kubernetes.io/managed-by"


def labels(cluster: Cluster, component: str, manager: str) -> dict[str, str]:
    return {**common_labels(cluster), MANAGER: manager, COMPONENT: component}


def selector(of: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in of.items())


def number_of(job: Mapping[str, Any]) -> int:
    """The number of a launch among those of the same name."""
    return int(str(job["metadata"]["name"]).rpartition("-")[2])


def secret(cluster: Cluster, of: Mapping[str, str], owner: Mapping[str, str], token: str) -> Manifest:
    """Gone with the Job that owns it (`owner`: its name and uid), and called like it. `of`: its labels."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,
        "metadata": {
            "name": owner["name"],
            "namespace": cluster.namespace,
            "labels": dict(of),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", **owner}],
        },
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }


def spec(cluster: Cluster, settings: QueriesPod, lake: str, kind: str, name: str) -> Manifest:
    """The spec of a Job's pod. `kind`: the argument of `python -m dataplane`; `name`: of its Secret."""
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


def _container(cluster: Cluster, settings: QueriesPod, lake: str, kind: str) -> Manifest:
    secrets = cluster.env_secrets if settings.env_secrets is None else settings.env_secrets
    return {
        "name": CONTAINER,
        "image": cluster.image,
        "command": ["tini", "--", "python3", "-P", "-m", "dataplane"],  # they end processes, whose own it takes up
        "args": [kind],
        "env": [{"name": name, "value": value} for name, value in _env(cluster, settings, lake).items()],
        "envFrom": [{"secretRef": {"name": name}} for name in secrets],
        "ports": [{"containerPort": settings.port}],
        "resources": {
            "requests": {"cpu": settings.cpu, "memory": settings.memory},
            "limits": {"memory": settings.memory},
        },
        "securityContext": UNPRIVILEGED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts({"tmp": "/tmp", "home": HOME}) + mounts({"given": GIVEN}, is_read_only=True),
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

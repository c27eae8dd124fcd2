"""The pod that answers queries by Spark: what a cluster is asked for, as plain JSON. Pure functions of the settings.

Its labels are not those of drivers and workers, which are no business of it. Does not belong here: asking
(`query_pods`).
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from hashlib import sha256

from controlplane.drivers.manifests import (
    CONTAINER,
    DISRUPTED,
    GIVEN,
    HEAP,
    HOME,
    OURS,
    POD_SECURITY,
    UNPRIVILEGED,
    Manifest,
    common_labels,
    mounts,
    placed,
)
from controlplane.drivers.pools import Cluster, QueriesPod

QUERY = "query"
MANAGER = "headgate-queries"
SETTINGS, NONCE = f"{OURS}/settings", f"{OURS}/nonce"
GRACE_S = 5
DISK_BYTES = 4 << 30
DERIVED = b"headgate/query-pod/1\n"


def selector(cluster: Cluster, settings: str) -> str:
    labels = {**_labels(cluster), SETTINGS: settings}
    return ",".join(f"{name}={value}" for name, value in labels.items())


def settings(cluster: Cluster, lake: str, secret: bytes) -> str:
    """Of pods with the same image, bounds and secret: one of others is not asked, and ends once it is idle."""
    told = json.dumps(_spec(cluster, lake, token(secret, "")), sort_keys=True)
    return sha256(told.encode()).hexdigest()[:10]


def token(secret: bytes, nonce: str) -> str:
    """What a pod knows callers by. Every replica of a service can tell it, and whoever may list Jobs cannot."""
    return hmac.new(secret, DERIVED + nonce.encode(), sha256).hexdigest()


def job(cluster: Cluster, lake: str, made_of: str, number: int, nonce: str) -> Manifest:
    """`made_of`: see `settings`. `number`: of launches, so that the second replica to ask for the same is told so."""
    name, labels = f"{cluster.instance}-query-{made_of}-{number}", {**_labels(cluster), SETTINGS: made_of}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "labels": labels,
            "annotations": {NONCE: nonce},
        },
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": cluster.keep_s,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [DISRUPTED]},
            "template": {"metadata": {"labels": labels}, "spec": _spec(cluster, lake, name)},
        },
    }


def secret(cluster: Cluster, labels: Mapping[str, str], owner: Mapping[str, str], token: str) -> Manifest:
    """Gone with the Job that owns it (`owner`: its name and uid), and called like it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,
        "metadata": {
            "name": owner["name"],
            "namespace": cluster.namespace,
            "labels": dict(labels),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", **owner}],
        },
        "data": {"token": base64.b64encode(token.encode()).decode()},
    }


def _labels(cluster: Cluster) -> dict[str, str]:
    return {
        **common_labels(cluster),
        "app.kubernetes.io/managed-by": MANAGER,
        "app.kubernetes.io/component": QUERY,
    }


def _spec(cluster: Cluster, lake: str, name: str) -> Manifest:
    asked = _asked(cluster)
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": [_container(cluster, asked, lake)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "home", "emptyDir": {}},
            {"name": "given", "secret": {"secretName": name, "defaultMode": 0o440}},
        ],
        **placed(asked.place),
    }


def _container(cluster: Cluster, asked: QueriesPod, lake: str) -> Manifest:
    secrets = cluster.env_secrets if asked.env_secrets is None else asked.env_secrets
    return {
        "name": CONTAINER,
        "image": cluster.image,
        "command": ["python3", "-P", "-m", "dataplane"],
        "args": [QUERY],
        "env": [{"name": name, "value": value} for name, value in _env(cluster, asked, lake).items()],
        "envFrom": [{"secretRef": {"name": name}} for name in secrets],
        "ports": [{"containerPort": asked.port}],
        "resources": {"requests": {"cpu": asked.cpu, "memory": asked.memory}, "limits": {"memory": asked.memory}},
        "securityContext": UNPRIVILEGED,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts({"tmp": "/tmp", "home": HOME}) + mounts({"given": GIVEN}, is_read_only=True),
    }


def _env(cluster: Cluster, asked: QueriesPod, lake: str) -> dict[str, str]:
    told = {
        "HEADGATE_TOKEN_FILE": f"{GIVEN}/token",
        "HEADGATE_LAKE": lake,
        "HEADGATE_PORT": str(asked.port),
        "HEADGATE_IDLE_S": str(asked.idle_s),
        "HEADGATE_MEMORY_BYTES": str(int(asked.memory_mib * HEAP) << 20),
        "HEADGATE_DISK_BYTES": str(DISK_BYTES),
        "HEADGATE_SPARK_CONF": json.dumps(dict(cluster.conf), sort_keys=True),
    }
    return {**cluster.env, **told}


def _asked(cluster: Cluster) -> QueriesPod:
    assert cluster.queries is not None
    return cluster.queries

"""The kinds of pods that a service starts, and the Job and the Secret that each of them has.

A pod is that of a Job, which the cluster ends and forgets. What opens the control plane stands in a
Secret: it has the name of the Job, and is gone with it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from controlplane.drivers.pools import Cluster

Manifest: TypeAlias = dict[str, Any]

INSTANCE = "app.kubernetes.io/instance"
MANAGER = "app.kubernetes.io/managed-by"
COMPONENT = "app.kubernetes.io/component"

# A pod that the cluster takes away fails its Job with these words, also once the pod itself has
# gone.
DISRUPTED = {
    "action": "FailJob",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


class PodKind(NamedTuple):
    """Pods that one part of the service starts and finds again.

    `component`: their label, and the argument of `python -m dataplane`. `manager`: the label of the
    part, which looks at no pods of others.
    """

    component: str
    manager: str

    def labels(self, cluster: Cluster) -> dict[str, str]:
        of = {"app.kubernetes.io/name": "headgate", MANAGER: self.manager}
        return {**of, INSTANCE: cluster.instance, COMPONENT: self.component}


# The one table of kinds. Drivers and workers have one pool, and are found together.
POD_KINDS: Mapping[str, PodKind] = {
    "driver": PodKind("driver", "headgate"),
    "worker": PodKind("worker", "headgate"),
    "executor": PodKind("executor", "headgate"),  # started by the Spark of a driver
    "query": PodKind("query", "headgate-queries"),
    "session": PodKind("session", "headgate-sessions"),
}


def selector(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def number_of(job: Mapping[str, Any]) -> int:
    """The number of a launch among those of the same name."""
    return int(str(job["metadata"]["name"]).rpartition("-")[2])


class JobParts(NamedTuple):
    """The parts in which Jobs differ. `deadline_s`: after which the cluster ends the pod; None:
    never."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod: Manifest
    deadline_s: int | None = None
    pod_annotations: Mapping[str, str] | None = None


def job_manifest(cluster: Cluster, parts: JobParts) -> Manifest:
    """A Job with one pod. It is tried once: trying again is ours."""
    deadline = {} if parts.deadline_s is None else {"activeDeadlineSeconds": parts.deadline_s}
    pod_annotations = (
        {} if parts.pod_annotations is None else {"annotations": dict(parts.pod_annotations)}
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": parts.name,
            "namespace": cluster.namespace,
            "labels": dict(parts.labels),
            "annotations": dict(parts.annotations),
        },
        "spec": {
            "backoffLimit": 0,
            **deadline,
            "ttlSecondsAfterFinished": cluster.keep_s,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [DISRUPTED]},
            "template": {
                "metadata": {"labels": dict(parts.labels), **pod_annotations},
                "spec": parts.pod,
            },
        },
    }


def secret_manifest(
    cluster: Cluster, labels: Mapping[str, str], owner: Mapping[str, str], texts: Mapping[str, str]
) -> Manifest:
    """A Secret with these texts. `owner`: name and uid of the Job that it belongs to."""
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
        "data": {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()},
    }

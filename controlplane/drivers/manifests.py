"""Manifests for a cluster: pure functions of the pools' settings and of one launch, to plain
JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.core.model import namespaces
from controlplane.core.model.tasks import Size
from controlplane.drivers.pod_kinds import (
    INSTANCE,
    MANAGER,
    POD_KINDS,
    JobParts,
    Manifest,
    job_manifest,
    secret_manifest,
)
from controlplane.drivers.pod_kinds import selector as selector_of
from controlplane.drivers.pools import Cluster, Executors, NodePlace, Pool, cores, mebibytes

OURS = "headgate.dev"
DRIVER = f"{OURS}/driver"  # annotation of a Job: the id that its process goes by
SLOT = f"{OURS}/slot"
KIND, SIZE, NAMESPACE = f"{OURS}/kind", f"{OURS}/size", f"{OURS}/namespace"
CONTAINER = "headgate"
RUN_AS = 185  # as Spark's own images
GIVEN = "/var/run/headgate"  # what the control plane hands to a pod
HOME = "/var/lib/headgate"
SECRETS = "/var/run/headgate-secrets"
DRIVER_PORT, BLOCK_PORT = 7078, 7079
CALLS = "/tmp/headgate-calls"  # touched by a driver or worker with each call that it makes
# An idle one calls every 10 or 20 s; one that waits for an answer, after 65 s at the latest
CALLS_EVERY_S = 120
HEAP = 0.6  # of a driver's memory: the rest is Python's, and the JVM's beside its heap

# Silence of an idle process holds no lease, so nothing but the kubelet ends it and gives its slot
# back. Calls count, not their answers: a control plane that is away kills no process. A stopped
# process ignores SIGTERM as well, hence the short grace.
CALLED_LATELY = "import os, sys, time; sys.exit(time.time() - os.stat(sys.argv[1]).st_mtime > float(sys.argv[2]))"
LIVENESS: Manifest = {
    "exec": {"command": ["python3", "-I", "-S", "-c", CALLED_LATELY, CALLS, str(CALLS_EVERY_S)]},
    "initialDelaySeconds": 120,
    "periodSeconds": 30,
    "timeoutSeconds": 20,
    "failureThreshold": 3,
    "terminationGracePeriodSeconds": 5,
}

UNPRIVILEGED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
POD_SECURITY = {
    "runAsNonRoot": True,
    "runAsUser": RUN_AS,
    "runAsGroup": RUN_AS,
    "fsGroup": RUN_AS,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True, slots=True)
class Launch:
    """One driver or worker that is to be. The `number` counts launches in a slot, so that names
    come once only."""

    driver: str
    kind: str
    size: Size
    slot: int
    number: int

    @property
    def namespace(self) -> str:
        """The namespace of the installation whose work the driver does, not that of the cluster."""
        return namespaces.of_id(self.driver)

    def name(self, cluster: Cluster, pool: Pool) -> str:
        """Equal for all processes that see the same slot free: the second one to create it gets a
        conflict."""
        return f"{cluster.instance}-{pool.name}-{self.slot}-{self.number}"


def selector(cluster: Cluster) -> str:
    """The label selector of all that belongs to one installation."""
    return selector_of({INSTANCE: cluster.instance, MANAGER: POD_KINDS["driver"].manager})


def job(cluster: Cluster, launch: Launch) -> Manifest:
    cluster = cluster.within(launch.namespace)
    pool = cluster.pool(launch.kind, launch.size)
    name = launch.name(cluster, pool)
    driver = {DRIVER: launch.driver}
    parts = JobParts(
        name,
        _labels(cluster, launch),
        driver,
        _pod(cluster, pool, name),
        pool.deadline_s,
        {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", **driver},
    )
    return job_manifest(cluster, parts)


def secret(cluster: Cluster, launch: Launch, token: str, owner: Mapping[str, str]) -> Manifest:
    """The values that must not stand in a pod's manifest, deleted with the Job that owns them
    (`owner`: its name and uid)."""
    cluster = cluster.within(launch.namespace)
    pool = cluster.pool(launch.kind, launch.size)
    texts = {"token": token}
    if pool.executors:
        texts["executor.json"] = json.dumps(executor(cluster, pool.executors), sort_keys=True)
    return secret_manifest(cluster, _labels(cluster, launch), owner, texts)


def executor(cluster: Cluster, executors: Executors) -> Manifest:
    """The template of Spark's executor pods: nothing in it opens the cluster or the control
    plane."""
    container = {
        "name": "executor",
        "image": cluster.image,
        "securityContext": UNPRIVILEGED,
        "volumeMounts": mounts({"tmp": "/tmp", "home": HOME}),
        **_given_variables(cluster),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": POD_KINDS["executor"].labels(cluster)},
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": POD_SECURITY,
            "containers": [container],
            "volumes": [{"name": name, "emptyDir": {}} for name in ("tmp", "home")],
            **placed(executors.place),
        },
    }


def spark_conf(cluster: Cluster, pool: Pool) -> dict[str, str]:
    """`$(NAME)` is put in by the kubelet, from the variables before this one."""
    alone = {"spark.master": f"local[{max(1, int(cores(pool.cpu)))}]"}
    return (_on_executors(cluster, pool.executors) if pool.executors else alone) | dict(
        cluster.conf
    )


def _on_executors(cluster: Cluster, executors: Executors) -> dict[str, str]:
    return {
        "spark.master": "k8s://https://kubernetes.default.svc",
        "spark.driver.host": "$(POD_IP)",
        "spark.driver.bindAddress": "0.0.0.0",
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_PORT),
        "spark.kubernetes.namespace": cluster.namespace,
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",  # which executors then belong to
        "spark.kubernetes.container.image": cluster.image,
        "spark.kubernetes.executor.podTemplateFile": f"{GIVEN}/executor.json",
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        "spark.kubernetes.executor.podNamePrefix": "$(POD_NAME)",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.terminationGracePeriodSeconds": "60s",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.executor.cores": str(executors.cpu),
        "spark.kubernetes.executor.request.cores": str(executors.cpu),
        # A pod gets the memory and a tenth, at least 384 MiB, more; together they are what the
        # settings say.
        "spark.executor.memory": f"{_without_overhead(executors.memory)}m",
        "spark.executor.memoryOverhead": f"{mebibytes(executors.memory) - _without_overhead(executors.memory)}m",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.maxExecutors": str(executors.maximum),
        "spark.dynamicAllocation.executorIdleTimeout": "60s",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
    }


def _without_overhead(quantity: str) -> int:
    limit_mib = mebibytes(quantity)
    return max(limit_mib // 2, min(limit_mib - 384, int(limit_mib * 0.75)))


def _labels(cluster: Cluster, launch: Launch) -> dict[str, str]:
    return {
        **POD_KINDS[launch.kind].labels(cluster),
        KIND: launch.kind,
        SIZE: launch.size,
        SLOT: str(launch.slot),
        NAMESPACE: launch.namespace,
    }


def _pod(cluster: Cluster, pool: Pool, name: str) -> Manifest:
    volumes: list[Manifest] = [{"name": volume, "emptyDir": {}} for volume in ("tmp", "home")]
    volumes.append({"name": "given", "secret": {"secretName": name, "defaultMode": 0o440}})
    volumes += [
        {"name": f"secret-{i}", "secret": {"secretName": s, "defaultMode": 0o440}}
        for i, s in enumerate(cluster.secrets)
    ]
    talks_to_cluster = pool.executors is not None
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": pool.grace_s,
        "serviceAccountName": cluster.service_account if talks_to_cluster else "default",
        "automountServiceAccountToken": talks_to_cluster,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "containers": [_container(cluster, pool)],
        "volumes": volumes,
        **placed(pool.place),
    }


def _container(cluster: Cluster, pool: Pool) -> Manifest:
    mounted = mounts({"tmp": "/tmp", "home": HOME})
    mounted += mounts(
        {
            "given": GIVEN,
            **{f"secret-{i}": f"{SECRETS}/{s}" for i, s in enumerate(cluster.secrets)},
        },
        is_read_only=True,
    )
    return {
        "name": CONTAINER,
        "image": cluster.image,
        "command": ["python3", "-P", "-m", "dataplane"],
        "args": [pool.kind],
        "env": _env(cluster, pool),
        "resources": {
            "requests": {"cpu": pool.cpu, "memory": pool.memory},
            "limits": {"memory": pool.memory},
        },
        "securityContext": UNPRIVILEGED,
        "livenessProbe": LIVENESS,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounted,
        **_given_variables(cluster),
    }


def _env(cluster: Cluster, pool: Pool) -> list[Manifest]:
    paths = {
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_IP": "status.podIP",
    }
    values = {
        "HEADGATE_URL": cluster.url,
        "HEADGATE_TOKEN_FILE": f"{GIVEN}/token",
        "HEADGATE_HOME": HOME,
    }
    values["HEADGATE_CALLS_FILE"] = CALLS
    if cluster.secrets:
        values["HEADGATE_SECRETS"] = SECRETS
    if pool.kind == "driver":
        values["HEADGATE_SIZES"] = ",".join(cluster.serves(pool.size))
        values["HEADGATE_DRIVER_MEMORY"] = f"{int(pool.memory_mib * HEAP)}m"
        values["HEADGATE_SPARK_CONF"] = json.dumps(spark_conf(cluster, pool), sort_keys=True)
    own = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in paths.items()
    ]
    return own + [
        {"name": name, "value": value} for name, value in {**cluster.env, **values}.items()
    ]


def _given_variables(cluster: Cluster) -> Manifest:
    return (
        {"envFrom": [{"secretRef": {"name": name}} for name in cluster.env_secrets]}
        if cluster.env_secrets
        else {}
    )


def mounts(paths: Mapping[str, str], *, is_read_only: bool = False) -> list[Manifest]:
    return [
        {"name": name, "mountPath": path} | ({"readOnly": True} if is_read_only else {})
        for name, path in paths.items()
    ]


def placed(place: NodePlace) -> Manifest:
    fields_of_pod: Manifest = {}
    if place.selector:
        fields_of_pod["nodeSelector"] = dict(place.selector)
    if place.tolerations:
        fields_of_pod["tolerations"] = [dict(t) for t in place.tolerations]
    if place.priority_class:
        fields_of_pod["priorityClassName"] = place.priority_class
    return fields_of_pod

"""A namespace with the project's own roles, nodes that run processes, and pools that may do what
the roles say.

Does not belong here: what is expected.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import yaml
from kubernetes import client, config

from controlplane.core.model.drivers import Driver
from controlplane.core.model.scaling import PoolLimits
from controlplane.drivers.cluster import Api
from controlplane.drivers.kubernetes import KubernetesPool
from controlplane.drivers.pools import DEFAULTS, Cluster, Pool
from tests.cluster.control import ControlPlane
from tests.cluster.kubelet import Image, ProcessKubelet
from tests.e2e.workspace import until

RBAC = Path(__file__).parents[2] / "deploy" / "base" / "rbac.yaml"
POD = Path(__file__).with_name("pod.py")
IMAGE = "test/dataplane"
PLAIN: Any = client  # what it is given are dictionaries
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


class Site:
    """Namespaces of its own, so that tests do not meet. Nodes carry the site's name as a label."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane, self.folder = plane, folder
        self.name = f"t{uuid4().hex[:8]}"
        self.namespace, self.home = f"{self.name}-data", self.name
        self.settings = client.Configuration()
        config.load_kube_config(str(plane.kubeconfig), client_configuration=self.settings)
        self.core = PLAIN.CoreV1Api(client.ApiClient(self.settings))
        self.batch = PLAIN.BatchV1Api(self.core.api_client)
        for name in (self.home, self.namespace):
            self.core.create_namespace({"metadata": {"name": name, "labels": RESTRICTED}})
        plane.kubectl("apply", "-f", "-", stdin=self.roles())
        self._kubelets: list[ProcessKubelet] = []
        self._pools: list[KubernetesPool] = []

    def roles(self) -> str:
        """The project's, with the namespaces of this site."""
        text = RBAC.read_text(encoding="utf-8")
        return text.replace("namespace: headgate-data", f"namespace: {self.namespace}").replace(
            "namespace: headgate\n", f"namespace: {self.home}\n"
        )

    def token(self, account: str = "headgate-controlplane", namespace: str = "") -> str:
        return self.plane.kubectl("create", "token", account, "-n", namespace or self.home).strip()

    def api(self, url: str = "") -> Api:
        """As the control plane, over this URL."""
        settings = client.Configuration(host=url or self.settings.host)
        settings.ssl_ca_cert = self.settings.ssl_ca_cert
        settings.api_key = {"BearerToken": f"Bearer {self.token()}"}
        return Api(self.namespace, settings)

    def kubeconfig(self, folder: Path) -> Path:
        """The control plane's."""
        said = yaml.safe_load(self.plane.kubeconfig.read_text())
        said["users"][0]["user"] = {"token": self.token()}
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(said))
        return path

    @property
    def authority(self) -> str:
        assert self.settings.ssl_ca_cert is not None
        return str(self.settings.ssl_ca_cert)

    def node(
        self, orders: str = "stay", *, images: Mapping[str, Image] | None = None, **options: Any
    ) -> ProcessKubelet:
        """A node for pods of this site, whose processes follow orders."""
        program = Image((sys.executable, str(POD)), {"ORDERS": orders})
        found = {IMAGE: program} if images is None else images
        name = f"{self.name}-{len(self._kubelets)}"
        folder = self.folder / name
        labels = {"site": self.name, **options.pop("labels", {})}
        self._kubelets.append(
            ProcessKubelet(
                self.plane.kubeconfig, folder, found, name=name, labels=labels, **options
            )
        )
        return self._kubelets[-1]

    def cluster(self, maximum: int = 3, **changes: Any) -> Cluster:
        """`changes` of the pool of standard drivers, or of `image`."""
        image = changes.pop("image", IMAGE)
        place = replace(DEFAULTS["standard"].place, selector={"site": self.name})
        small: dict[str, Any] = {"cpu": "100m", "memory": "64Mi", "grace_s": 5, "place": place}
        limits = PoolLimits(0, maximum, idle_s=0.0, tasks_each=64)
        pools: dict[str, Pool] = {
            n: replace(p, limits=limits, **small) for n, p in DEFAULTS.items()
        }
        pools["standard"] = replace(pools["standard"], **changes)
        return Cluster(self.namespace, image, "http://127.0.0.1:1", pools=pools)

    def pool(
        self, cluster: Cluster | None = None, api: Api | None = None, **options: Any
    ) -> KubernetesPool:
        mint = options.pop("mint_token", lambda id: f"token of {id}")
        pool = KubernetesPool(cluster or self.cluster(), api or self.api(), mint, **options)
        self._pools.append(pool)
        return pool

    def quota(self, name: str, hard: Mapping[str, str]) -> None:
        """In force."""
        self.core.create_namespaced_resource_quota(
            self.namespace, {"metadata": {"name": name}, "spec": {"hard": hard}}
        )
        found = lambda: self.core.read_namespaced_resource_quota(name, self.namespace).status.hard  # noqa: E731
        until(found, lambda: "nobody counts")

    def jobs(self) -> list[str]:
        return sorted(j.metadata.name for j in self.batch.list_namespaced_job(self.namespace).items)

    def pods(self) -> list[str]:
        return sorted(p.metadata.name for p in self.core.list_namespaced_pod(self.namespace).items)

    def scheduled(self) -> list[str]:
        """Pods that have a node."""
        found = self.core.list_namespaced_pod(self.namespace).items
        return sorted(p.metadata.name for p in found if p.spec.node_name)

    def secrets(self) -> dict[str, str]:
        """Name -> token."""
        found = self.core.list_namespaced_secret(self.namespace).items
        return {
            s.metadata.name: base64.b64decode(s.data["token"]).decode()
            for s in found
            if "token" in s.data
        }

    def close(self) -> None:
        for pool in self._pools:
            pool.close()
        for kubelet in self._kubelets:
            kubelet.close()
        for name in (self.home, self.namespace):
            self.core.delete_namespace(name)
        self.core.api_client.close()


def drivers(pool: KubernetesPool, are: Callable[[tuple[Driver, ...]], bool]) -> tuple[Driver, ...]:
    """What the pool tells once it is as expected; ends are told once, so all that it told is
    kept."""
    told: dict[str, Driver] = {}

    def look() -> tuple[Driver, ...]:
        told.update({d.id: d for d in pool.poll()})
        found = tuple(told.values())
        return found if are(found) else ()

    return until(look, lambda: f"never: {told}")


def only(found: tuple[Driver, ...]) -> Driver:
    (driver,) = found
    return driver

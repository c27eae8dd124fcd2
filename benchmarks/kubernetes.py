"""What a pass of the loop costs with a thousand drivers in a cluster: time, memory, requests.

    python benchmarks/kubernetes.py [--drivers 1000] [--passes 7]

A real API server with its controllers and scheduler holds a Job and a running pod for each driver;
the nodes are made up. A process of its own is the control plane: it adopts them all, then passes
again and again with nothing to do. Keeps benchmarks/results/kubernetes.json. Ends with 1 where a
pass takes 2 s or the process 200 MB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

# Not this folder: the client's package has this file's name
sys.path[0] = str(Path(__file__).resolve().parents[1])

from controlplane.core.model.scaling import PoolLimits  # noqa: E402  # once the client is found
from controlplane.drivers.pools import DEFAULTS, Cluster  # noqa: E402  # the same

RESULTS = Path(__file__).with_name("results") / "kubernetes.json"
NAMESPACE, NODES_HOLD, AGAIN_S = "headgate-data", 100, 0.2
MOST_S, MOST_MB = 2.0, 200.0


def cluster(drivers: int) -> Cluster:
    pools = dict(DEFAULTS)
    pools["standard"] = replace(
        pools["standard"], limits=PoolLimits(drivers, drivers), cpu="10m", memory="16Mi"
    )
    pools["worker"] = replace(pools["worker"], limits=PoolLimits(0, 0))
    return Cluster(NAMESPACE, "headgate/dataplane", "http://headgate:8420", pools=pools)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--drivers", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=7)
    parser.add_argument("--as-control-plane", metavar="KUBECONFIG", type=Path)
    asked = parser.parse_args()
    if asked.as_control_plane:
        print(json.dumps(_passes(asked.as_control_plane, asked.drivers, asked.passes)))
    elif not _measure(asked.drivers, asked.passes):
        sys.exit(1)


# --- the cluster --------------------------------------------------------------------------------


def _measure(drivers: int, passes: int) -> bool:
    from benchmarks.planning.machine import machine
    from tests.cluster.conftest import FLAGS
    from tests.cluster.control import ControlPlane

    plane = ControlPlane(FLAGS)
    try:
        plane.start()
        launch_s = _fill(plane.kubeconfig, drivers)
        command = [sys.executable, __file__, "--as-control-plane", str(plane.kubeconfig)]
        command += ["--drivers", str(drivers), "--passes", str(passes)]
        found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    finally:
        plane.remove()
    # Of launch.py
    kept = {
        name: part for name, part in json.loads(RESULTS.read_text()).items() if name == "launch"
    }
    result = {"at": machine(), "drivers": drivers, "launch_s": round(launch_s, 1), **found, **kept}
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(RESULTS.read_text())
    return bool(found["pass_s"]["worst"] < MOST_S and found["memory_mb"] < MOST_MB)


def _fill(kubeconfig: Path, drivers: int) -> float:
    """A Job and a running pod for each driver; how long the pool took to launch them, in
    seconds."""
    from kubernetes import client, config

    from controlplane.drivers.cluster import Api
    from controlplane.drivers.kubernetes import KubernetesPool

    settings = client.Configuration()
    config.load_kube_config(str(kubeconfig), client_configuration=settings)
    core: Any = client.CoreV1Api(client.ApiClient(settings))
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    for number in range(-(-drivers // NODES_HOLD)):
        _node(core, f"node-{number}")
    pool = KubernetesPool(cluster(drivers), Api.open(NAMESPACE, kubeconfig), lambda _: "token")
    began = time.monotonic()
    pool.scale("driver", drivers)
    launched_s = time.monotonic() - began
    pool.close()
    while len(bound := _bound(core)) < drivers:
        time.sleep(AGAIN_S)
    for pod in bound:
        core.patch_namespaced_pod_status(pod, NAMESPACE, _running(), _preload_content=False)
    return launched_s


def _node(core: Any, name: str) -> None:
    hold = {"cpu": "64", "memory": "64Gi", "pods": str(NODES_HOLD)}
    core.create_node({"metadata": {"name": name}})
    core.patch_node(name, {"spec": {"taints": None}})
    ready = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "capacity": hold,
        "allocatable": hold,
    }
    core.patch_node_status(name, {"status": ready})


def _bound(core: Any) -> list[str]:
    found = json.loads(core.list_namespaced_pod(NAMESPACE, _preload_content=False).data)
    return [p["metadata"]["name"] for p in found["items"] if p["spec"].get("nodeName")]


def _running() -> dict[str, Any]:
    container = {
        "name": "headgate",
        "image": "headgate/dataplane",
        "imageID": "",
        "restartCount": 0,
        "ready": True,
    }
    state = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    return {"status": {"phase": "Running", "containerStatuses": [{**container, **state}]}}


# --- the control plane --------------------------------------------------------------------------


def _passes(kubeconfig: Path, drivers: int, passes: int) -> dict[str, Any]:
    from controlplane.drivers.cluster import Api
    from controlplane.drivers.kubernetes import KubernetesPool
    from controlplane.garbage import collect_rarely
    from controlplane.lake.lake_objects import open_lake
    from controlplane.lake.publisher import DeltaPublisher
    from controlplane.operations.context import Context
    from controlplane.reconciler.fleet import Fleet
    from controlplane.reconciler.loop import Reconciler
    from controlplane.reconciler.wake import WakeCounter
    from controlplane.store import open_store, upgrade

    collect_rarely()  # as the command does
    with TemporaryDirectory(prefix="kubernetes-") as folder:
        url = f"sqlite:///{folder}/metadata.db"
        upgrade(url)
        lake = Path(folder).as_uri()
        pool = KubernetesPool(cluster(drivers), Api.open(NAMESPACE, kubeconfig), lambda _: "token")
        store = open_store(url)
        loop = Reconciler(
            store, Fleet(Context(store), open_lake(lake), pool), DeltaPublisher(lake), WakeCounter()
        )
        times, cpu = [], []
        for _ in range(passes + 1):
            began, used = time.monotonic(), time.process_time()
            loop.tick()
            times.append(time.monotonic() - began)
            cpu.append(time.process_time() - used)
        known = len(pool.seen_jobs())
        loop.close()
        store.close()
    assert known == drivers, f"{known} of {drivers} were adopted"
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    told = {"median": round(median(times[1:]), 3), "worst": round(max(times[1:]), 3)}
    own = round(median(cpu[1:]), 3)
    return {
        "adoption_s": round(times[0], 3),
        "pass_s": told,
        "pass_cpu_s": own,
        "memory_mb": round(memory_mb, 1),
    }


if __name__ == "__main__":
    main()

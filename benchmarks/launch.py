"""How long it takes from a driver's Job to the driver's first claim, and whose time that is.

    make bench-launch [ARGS="--rounds 5"]

On a whole cluster of one node, with nothing else in it. Each round begins without a driver of its
pool and asks for one small query. What is noted: when the API server tells of the Job, of its pod
and of the pod's node; when the kernel started the pod's process; when the database took note of the
first claim. Spark starts while the driver claims, and is told apart, from the driver's log. Keeps
the part `launch` of benchmarks/results/kubernetes.json.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

# Not this folder: a package has the name of a file in it
sys.path[0] = str(Path(__file__).resolve().parents[1])

from kubernetes import client, config, watch  # noqa: E402  # once it is found

from benchmarks.planning.machine import machine  # noqa: E402  # the same
from controlplane.client import Headgate  # noqa: E402  # the same
from tests.e2e.workspace import until  # noqa: E402  # the same
from tests.pods import node  # noqa: E402  # the same
from tests.pods.cluster import DATA, Cluster, Json, settled  # noqa: E402  # the same

RESULTS = Path(__file__).with_name("results") / "kubernetes.json"
MINE = "headgate.dev/size=standard,app.kubernetes.io/component=driver"
STEPS = ("job", "pod", "node", "process", "claim")
FLOW = """
dataflow: launch{number}
components:
  airlines:
    read: {{connector: files, path: /data/airlines.csv, format: csv, options: {{header: true}}, refresh: 1h}}
  named:
    resources: standard
    transform: {{sql: "SELECT carrier, name FROM airlines WHERE carrier <> '{number}'"}}
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    cluster = Cluster.around()
    cluster.install()
    seen = Seen()
    seen.follow()
    with cluster.client() as headgate:
        # The first one also reads
        found = [one(cluster, headgate, seen, number) for number in range(rounds + 1)][1:]
    told = {name: _told([f[name] for f in found]) for name in found[0]}
    known = json.loads(RESULTS.read_text())
    RESULTS.write_text(
        json.dumps(known | {"launch": {"at": machine(), "rounds": rounds, **told}}, indent=1) + "\n"
    )
    print(json.dumps(json.loads(RESULTS.read_text())["launch"], indent=1))


def one(cluster: Cluster, headgate: Headgate, seen: Seen, number: int) -> dict[str, float]:
    """Seconds of each step, of all of them, and of Spark's start."""
    cluster.kubectl(
        "delete", "jobs", f"--selector={MINE}", "--namespace", DATA, "--cascade=foreground"
    )
    seen.forget()
    headgate.apply([{"name": f"/launch{number}.yaml", "text": FLOW.format(number=number)}])
    assert settled(headgate, f"launch{number}")["state"] == "up_to_date"
    (pod,) = cluster.get("pods", "--namespace", DATA, f"--selector={MINE}")["items"]
    times = {**seen.times, "process": started(pod), "claim": claimed(cluster, pod)}
    steps = {f"{a}_to_{b}_s": times[b] - times[a] for a, b in pairwise(STEPS)}
    return {
        **steps,
        "job_to_claim_s": times["claim"] - times["job"],
        "spark_s": spark(cluster, pod),
    }


class Seen:
    """When the API server first told what, in seconds since 1970."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}

    def forget(self) -> None:
        self.times.clear()

    def follow(self) -> None:
        config.load_kube_config()
        core: Any = client.CoreV1Api()
        batch: Any = client.BatchV1Api()
        for kind, listing in (
            ("job", batch.list_namespaced_job),
            ("pod", core.list_namespaced_pod),
        ):
            threading.Thread(target=self._follow, args=(kind, listing), daemon=True).start()

    def _follow(self, kind: str, listing: Callable[..., Any]) -> None:
        while True:
            for event in watch.Watch().stream(listing, DATA, label_selector=MINE):
                self._note(kind, event["raw_object"])

    def _note(self, kind: str, found: Json) -> None:
        if "deletionTimestamp" in found["metadata"]:
            return
        self.times.setdefault(kind, time.time())
        if found["spec"].get("nodeName"):
            self.times.setdefault("node", time.time())


def started(pod: Json) -> float:
    """When the kernel started the main process."""
    process = node.main_process(pod)
    assert process is not None
    ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    since_boot_s = ticks / 100  # the unit that the kernel tells in, whatever its own is
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot_s


def claimed(cluster: Cluster, pod: Json) -> float:
    """When the database took note of the first attempt that this driver tells of."""
    (attempt,) = _said(cluster, pod, r"event=attempt attempt=(\w+)")
    sql = f"SELECT at FROM events WHERE kind = 'task.claimed' AND body::json->>'attempt' = '{attempt}'"
    ((at,),) = cluster.query(sql)
    return float(at)


def spark(cluster: Cluster, pod: Json) -> float:
    (seconds,) = _said(cluster, pod, r"event=spark-started seconds=([0-9.]+)")
    return float(seconds)


def _said(cluster: Cluster, pod: Json, pattern: str) -> tuple[str, ...]:
    """What the first such line of its log tells, once there is one."""

    def look() -> re.Match[str] | None:
        return re.search(
            pattern, cluster.kubectl("logs", pod["metadata"]["name"], "--namespace", DATA)
        )

    found = until(look, lambda: f"{pod['metadata']['name']} never says {pattern}")
    assert found is not None
    return found.groups()


def _told(seconds: list[float]) -> dict[str, float]:
    return {"median": round(median(seconds), 2), "worst": round(max(seconds), 2)}


if __name__ == "__main__":
    main()

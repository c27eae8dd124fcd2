"""The node of the cluster as root sees it from outside of its pods: their processes and files, and
images.

Does not belong here: what the cluster's API tells (`cluster`).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.workspace import until
from tests.pods.cluster import Cluster

Json = dict[str, Any]
PLANE, NAME = "headgate-test-plane", "node1"
ADDRESS = "172.30.0.1"  # as `inside.sh` says


def main_process(pod: Json) -> int | None:
    """Of its one container; None if that has none, or none any more."""
    statuses = pod["status"].get("containerStatuses", ())
    containers = [s["containerID"].rpartition("/")[2] for s in statuses if "containerID" in s]
    return next((pid for pid in _processes() if containers and _is_first(pid, containers[0])), None)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _is_first(pid: int, container: str) -> bool:
    with suppress(OSError):
        place = Path("/proc", str(pid))
        if container in (place / "cgroup").read_text():
            (ids,) = (
                line
                for line in (place / "status").read_text().splitlines()
                if line.startswith("NSpid:")
            )
            return ids.split()[-1] == "1"
    return False


def is_anywhere(name: str) -> bool:
    """Whether a process has a file of this name for a while. Much less work than asking for pods
    again and again."""
    return any(os.path.exists(f"/proc/{pid}/root/tmp/{name}") for pid in _processes())


def kill(pod: Json) -> None:
    """As kill -9 does; what else runs in its container ends with the main process."""
    process = main_process(pod)
    assert process is not None, pod["metadata"]["name"]
    os.kill(process, signal.SIGKILL)


def folder(pod: Json) -> Path | None:
    """Where files for a while of its main process lie; None if it does not run."""
    process = main_process(pod)
    return None if process is None else Path(f"/proc/{process}/root/tmp")


@contextmanager
def closed(cluster: Cluster) -> Iterator[None]:
    """The node takes no new pods; those that it has go on."""
    cluster.kubectl("cordon", NAME)
    try:
        yield
    finally:
        cluster.kubectl("uncordon", NAME)


@contextmanager
def without_image(cluster: Cluster, name: str) -> Iterator[None]:
    """The node has lost an image, and nobody else has it; containers that run go on."""
    kept = f"{name}-kept"
    _ctr(cluster, "tag", name, kept)
    _ctr(cluster, "rm", name)
    try:
        yield
    finally:
        _ctr(cluster, "tag", kept, name)
        _ctr(cluster, "rm", kept)


def _ctr(cluster: Cluster, *arguments: str) -> None:
    socket = str(cluster.home / "containerd.sock")
    subprocess.run(
        ["ctr", "--address", socket, "--namespace", "k8s.io", "images", *arguments], check=True
    )


@contextmanager
def without_api_server(cluster: Cluster) -> Iterator[None]:
    """With it, etcd, controllers and scheduler are killed. It is started again with what it had."""
    process = next(pid for pid in _processes() if _command(pid)[0] == PLANE)
    command = _command(process)
    os.kill(process, signal.SIGKILL)
    try:
        yield
    finally:
        log = str(cluster.home / "log" / "plane.log")
        subprocess.run(["sh", "-c", '"$@" </dev/null >>"$0" 2>&1 &', log, *command], check=True)
        until(_answers, lambda: "the API server does not come back")


def _command(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0").split("\0")
    return [""]


def _answers() -> bool:
    return (
        subprocess.run(
            ["kubectl", "get", "--raw", "/readyz"], capture_output=True, check=False
        ).returncode
        == 0
    )

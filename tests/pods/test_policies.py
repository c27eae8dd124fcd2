"""Network policies, enforced by the node: who of the installation reaches whom, and who does not.

That all works which has to is what the other tests here show. Does not belong here: rights in the
API server.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.e2e.workspace import until
from tests.pods import node
from tests.pods.cluster import COMPONENT, CONTROL, DATA, LOOPS, Cluster

METADATA = "169.254.169.254"  # where clouds tell a node's own credentials
PORTS = (7078, 8000)  # the first is that of a driver for its executors
ASKED = {"query": 7070, "session": 7071}  # pods that the control plane alone calls, at one port
LISTENS = """
import socket, sys
there = [socket.create_server(("", int(port))) for port in sys.argv[1:]]
print("listens", flush=True)
sys.stdin.read()
"""
CALLS = """
import socket, sys
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host, int(port))).close()
        print(place)
    except OSError as e:
        print(place, e, file=sys.stderr)
"""
SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}

Network = list[str]  # the beginning of a command that runs in it


@pytest.fixture(scope="module")
def networks(installed: Cluster) -> Iterator[dict[str, Network]]:
    """Of pods of the installation, and of pods that do nothing but have a place and a label."""
    made = {
        "driver": DATA,
        "executor": DATA,
        "query": DATA,
        "session": DATA,
        "other": DATA,
        "stranger": "default",
    }
    found = {
        "controlplane": _of(installed, CONTROL, f"{COMPONENT}={LOOPS}"),
        "postgresql": _of(installed, CONTROL, "app.kubernetes.io/name=postgresql"),
        "s3": _of(installed, CONTROL, "app.kubernetes.io/name=s3"),
    }
    try:
        for name, namespace in made.items():
            installed.kubectl(
                "create", "--namespace", namespace, "--filename=-", stdin=json.dumps(_pod(name))
            )
        for name, namespace in made.items():
            place = ("--namespace", namespace)
            installed.kubectl(
                "wait", "--for=condition=ready", f"pod/stands-for-{name}", *place, "--timeout=600s"
            )
            found[name] = _of(installed, namespace, f"{COMPONENT}={name}", f"stands-for={name}")
        yield found
    finally:
        for namespace in set(made.values()):
            installed.kubectl(
                "delete",
                "pods",
                "--namespace",
                namespace,
                "--selector=stands-for",
                "--grace-period=0",
            )


def test_nobody_reaches_more_than_the_policies_say(
    installed: Cluster, networks: dict[str, Network]
) -> None:
    api, database, store = (
        installed.address(service) for service in ("headgate", "postgresql", "s3")
    )
    cluster = f"{node.ADDRESS}:443"
    driver, executor = (
        _address(installed, f"stands-for-{name}") for name in ("driver", "executor")
    )
    hosts = {name: _address(installed, f"stands-for-{name}") for name in ASKED}
    open_to_us = {name: f"{hosts[name]}:{port}" for name, port in ASKED.items()}
    shut = {name: f"{host}:{PORTS[1]}" for name, host in hosts.items()}
    with ExitStack() as stack:
        stack.enter_context(_cloud())
        for network in ([], networks["driver"], networks["executor"]):
            stack.enter_context(_listener(network, *PORTS))
        for name, port in ASKED.items():
            stack.enter_context(_listener(networks[name], port, PORTS[1]))
        outside, metadata = (f"{host}:{PORTS[1]}" for host in (node.ADDRESS, METADATA))
        called, closed = (f"{driver}:{port}" for port in PORTS)
        blocks = f"{executor}:{PORTS[1]}"
        places = [api, database, store, cluster, outside, metadata, called, closed, blocks]
        places += [*open_to_us.values(), *shut.values()]
        assert _reached([], places) == set(places)  # by the node, of which policies do not speak
        until(
            lambda: not _reached(networks["other"], [api]),
            lambda: "policies do not come into force",
        )
        until(
            lambda: _reached(networks["driver"], [api]), lambda: "a driver does not reach the API"
        )
        until(
            lambda: _reached(networks["executor"], [called]),
            lambda: "an executor does not reach its driver",
        )
        until(
            lambda: _reached(networks["driver"], [blocks]),
            lambda: "a driver does not reach its executor",
        )
        asked = set(open_to_us.values())
        until(
            lambda: _reached(networks["controlplane"], list(asked)) == asked,
            lambda: "the control plane does not reach pods that it asks",
        )
        own = {"controlplane": {api}, "postgresql": {database}, "s3": {store}}
        own |= {"driver": {called, closed}, "executor": {blocks}}
        own |= {name: {open_to_us[name], shut[name]} for name in ASKED}
        others = {
            name: [place for place in places if place not in own.get(name, ())] for name in networks
        }
        assert {name: _reached(network, others[name]) for name, network in networks.items()} == {
            "controlplane": {database, store, cluster, outside, *asked},
            "postgresql": set(),
            "s3": set(),
            "driver": {api, store, cluster, outside, blocks},
            "executor": {store, cluster, outside, called},
            "query": {store, cluster, outside},
            "session": {store, cluster, outside},
            "other": {store, cluster, outside},
            "stranger": {cluster, outside, metadata},
        }


def _pod(name: str) -> dict[str, object]:
    container: dict[str, object] = {
        "name": "pause",
        "image": "localhost/headgate/pause:0.1.0",
        "imagePullPolicy": "Never",
    }
    container |= {
        "securityContext": SAFE,
        "resources": {"limits": {"cpu": "10m", "memory": "16Mi"}},
    }
    user = {"runAsNonRoot": True, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"}}
    spec = {
        "containers": [container],
        "securityContext": user,
        "automountServiceAccountToken": False,
    }
    labels = {COMPONENT: name, "stands-for": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"stands-for-{name}", "labels": labels},
        "spec": spec,
    }


def _of(cluster: Cluster, namespace: str, *labels: str) -> Network:
    """The network of one of these pods."""
    found = cluster.get("pods", "--namespace", namespace, f"--selector={','.join(labels)}")["items"]
    pod = next(pod for pod in found if "deletionTimestamp" not in pod["metadata"])
    process = node.main_process(pod)
    assert process is not None, pod["metadata"]["name"]
    return ["nsenter", f"--target={process}", "--net"]


def _address(cluster: Cluster, name: str) -> str:
    address: str = cluster.get("pod", name, "--namespace", DATA)["status"]["podIP"]
    return address


@contextmanager
def _cloud() -> Iterator[None]:
    """The node has the address of a cloud's metadata."""
    address = ("address", "add", f"{METADATA}/32", "dev", "node0")
    subprocess.run(["ip", *address], check=True)
    try:
        yield
    finally:
        subprocess.run(["ip", address[0], "delete", *address[2:]], check=True)


@contextmanager
def _listener(network: Network, *ports: int) -> Iterator[None]:
    command = [*network, sys.executable, "-c", LISTENS, *map(str, ports)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "listens\n"
            yield
        finally:
            process.stdin.close()


def _reached(network: Network, places: list[str]) -> set[str]:
    """Those of the places that let a process of this network connect."""
    done = subprocess.run(
        [*network, sys.executable, "-c", CALLS, *places],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return set(done.stdout.split())

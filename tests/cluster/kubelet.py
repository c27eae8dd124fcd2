"""A node without containers: an agent that runs the pods of an API server as processes of this
machine.

Done: commands, variables (plain, of the pod, of Secrets), Secrets and empty folders as folders,
states with exit codes and last words, logs, missing images, an end with grace, and, when a test
says so, evictions and kills for memory. Not done: images, isolation, limits, probes, several
containers. Does not belong here: where pods run (the real scheduler says).
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from tests.cluster.said import Said

Json = dict[str, Any]
TAIL_BYTES = 2048
AGAIN_S = 0.1
ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Image:
    """What stands for an image: a command on this machine, and its surroundings."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Running:
    """A pod whose process was started. `fate` is what a test made of it: a reason and its words."""

    pod: Json
    process: subprocess.Popen[bytes]
    log: Path
    fate: str = ""
    over: threading.Event = field(default_factory=threading.Event)


class ProcessKubelet:
    """Ends with `close`, and takes the processes along."""

    def __init__(
        self,
        kubeconfig: Path,
        root: Path,
        images: Mapping[str, Image],
        *,
        name: str = "processes",
        labels: Mapping[str, str] | None = None,
        capacity: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self._root, self._images = name, root, images
        settings = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=settings)
        self._core: Any = client.CoreV1Api(client.ApiClient(settings))
        self._pods: dict[str, Running | None] = {}  # uid -> None while it is being started
        self._processless: set[str] = set()  # uids of pods that are here and never had a process
        self._leaving: set[str] = set()  # uids of pods that somebody deleted
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._said = Said(
            self._log_of, kubeconfig.parent / "server.crt", kubeconfig.parent / "server.key"
        )
        self._register(
            dict(labels or {}), dict(capacity or {"cpu": "64", "memory": "64Gi", "pods": "2000"})
        )
        threading.Thread(target=self._run, name=f"kubelet-{name}", daemon=True).start()

    def _register(self, labels: Json, capacity: Json) -> None:
        """The server marks new nodes as not ready, which other controllers than those of the tests
        would take back."""
        self._core.create_node({"metadata": {"name": self.name, "labels": labels}})
        self._core.patch_node(self.name, {"spec": {"taints": None}})
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Processes",
            "lastHeartbeatTime": _now(),
        }
        status: Json = {"conditions": [ready], "capacity": capacity, "allocatable": capacity}
        status["addresses"] = [{"type": "InternalIP", "address": ADDRESS}]
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self._said.port}}
        self._core.patch_node_status(self.name, {"status": status})

    def close(self) -> None:
        self._closed.set()
        self._said.close()
        with self._changed:
            running = [r for r in self._pods.values() if r is not None]
        for one in running:
            _kill(one.process, signal.SIGKILL)
            one.process.wait()
        with suppress(ApiException, HTTPError):
            self._core.delete_node(self.name)

    def _log_of(self, namespace: str, pod: str) -> Path | None:
        for one in list(self._pods.values()):
            about = one.pod["metadata"] if one is not None else {}
            if one is not None and (about["namespace"], about["name"]) == (namespace, pod):
                return one.log
        return None

    # --- what tests do to pods ----------------------------------------------------------------------

    def started(self, job: str) -> Running:
        """The process of a Job's pod; waits until it was started."""
        with self._changed:
            self._changed.wait_for(lambda: self._of_job(job) is not None, 60)
            found = self._of_job(job)
        assert found is not None, f"no pod of {job} was started"
        return found

    def kill(self, job: str) -> None:
        _kill(self.started(job).process, signal.SIGKILL)

    def evict(self, job: str) -> None:
        """As under pressure of the node."""
        self._doom(job, "Evicted")

    def out_of_memory(self, job: str) -> None:
        """As the kernel does to a container at its limit."""
        self._doom(job, "OOMKilled")

    def hide(self) -> None:
        """As where the API server has no way to the node."""
        self._said.close()

    def _doom(self, job: str, fate: str) -> None:
        running = self.started(job)
        running.fate = fate
        _kill(running.process, signal.SIGKILL)

    def _of_job(self, job: str) -> Running | None:
        for one in self._pods.values():
            labels = one.pod["metadata"].get("labels", {}) if one is not None else {}
            if (
                one is not None
                and labels.get("batch.kubernetes.io/job-name") == job
                and not one.over.is_set()
            ):
                return one
        return None

    # --- following the server -----------------------------------------------------------------------

    def _run(self) -> None:
        """A list, then what changed since; whatever breaks starts it over."""
        while not self._closed.is_set():
            with suppress(ApiException, HTTPError, OSError, ValueError):
                for pod in self._pods_here():
                    self._see(pod)
            self._closed.wait(AGAIN_S)

    def _pods_here(self) -> Iterator[Json]:
        mine = {"field_selector": f"spec.nodeName={self.name}", "_preload_content": False}
        listed = json.loads(
            self._core.list_pod_for_all_namespaces(**mine, _request_timeout=10).data
        )
        yield from listed["items"]
        version = listed["metadata"]["resourceVersion"]
        stream = self._core.list_pod_for_all_namespaces(
            **mine, watch=True, resource_version=version
        )
        for line in _lines(stream):
            event = json.loads(line)
            if event["type"] in ("ADDED", "MODIFIED"):
                yield event["object"]
            elif event["type"] == "ERROR":
                return

    def _see(self, pod: Json) -> None:
        uid = pod["metadata"]["uid"]
        if "deletionTimestamp" in pod["metadata"]:
            self._leaving.add(uid)
            if uid not in self._pods or uid in self._processless:
                self._gone(pod)
            elif (running := self._pods[uid]) is not None:
                threading.Thread(target=self._stop, args=(running, pod), daemon=True).start()
        elif uid not in self._pods and pod["status"].get("phase") == "Pending":
            self._pods[uid] = None
            threading.Thread(target=self._live, args=(pod,), daemon=True).start()

    def _live(self, pod: Json) -> None:
        """From beginning to end."""
        (container,) = pod["spec"]["containers"]
        if container["image"] not in self._images:
            self._processless.add(pod["metadata"]["uid"])
            words = f"nothing stands for image {container['image']}"
            self._tell(pod, "Pending", {"waiting": {"reason": "ErrImagePull", "message": words}})
            return
        try:
            running = self._start(pod, container, self._images[container["image"]])
        except (OSError, ApiException) as e:
            self._processless.add(pod["metadata"]["uid"])
            self._tell(
                pod,
                "Failed",
                {"terminated": {"exitCode": 128, "reason": "StartError", "message": str(e)}},
            )
            return
        with self._changed:
            self._pods[pod["metadata"]["uid"]] = running
            self._changed.notify_all()
        self._tell(pod, "Running", {"running": {"startedAt": _now()}})
        code = running.process.wait()
        self._over(running, 128 - code if code < 0 else code)

    def _start(self, pod: Json, container: Json, image: Image) -> Running:
        folder = self._root / pod["metadata"]["name"]
        folder.mkdir(parents=True)
        mounts = self._mounts(pod, container, folder)
        environment = self._environment(pod, container, mounts) | dict(image.environment)
        log = folder / "log"
        with log.open("ab") as out:
            process = subprocess.Popen(
                [*image.command, *container.get("args", ())],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return Running(pod, process, log)

    def _mounts(self, pod: Json, container: Json, folder: Path) -> dict[str, Path]:
        """Path in the container -> folder here."""
        volumes = {v["name"]: v for v in pod["spec"].get("volumes", ())}
        found = {}
        for mount in container.get("volumeMounts", ()):
            place = folder / mount["name"]
            place.mkdir(exist_ok=True)
            if "secret" in volumes[mount["name"]]:
                for name, value in self._secret(
                    pod, volumes[mount["name"]]["secret"]["secretName"]
                ).items():
                    (place / name).write_bytes(value)
            found[mount["mountPath"]] = place
        return found

    def _secret(self, pod: Json, name: str) -> dict[str, bytes]:
        """A pod waits until its Secrets are there, or it is deleted: its Job takes the Secret
        along."""
        about = pod["metadata"]
        while True:
            try:
                found = self._core.read_namespaced_secret(name, about["namespace"])
                return {k: base64.b64decode(v) for k, v in (found.data or {}).items()}
            except ApiException as e:
                if e.status != 404 or about["uid"] in self._leaving or self._closed.wait(AGAIN_S):
                    raise

    def _environment(
        self, pod: Json, container: Json, mounts: Mapping[str, Path]
    ) -> dict[str, str]:
        about = pod["metadata"]
        fields = {
            "metadata.name": about["name"],
            "metadata.namespace": about["namespace"],
            "status.podIP": ADDRESS,
        }
        found = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "JAVA_HOME", "PYTHONPATH")
            if name in os.environ
        }
        for variable in container.get("env", ()):
            value = variable.get("value", "")
            if "valueFrom" in variable:
                value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            value = re.sub(r"\$\((\w+)\)", lambda m: found.get(m[1], m[0]), value)
            for path, place in mounts.items():
                if path != "/tmp" and (value == path or value.startswith(f"{path}/")):
                    value = str(place) + value.removeprefix(path)
            found[variable["name"]] = value
        return found

    # --- ends ---------------------------------------------------------------------------------------

    def _over(self, running: Running, code: int) -> None:
        if self._closed.is_set():  # its folder may be gone already, and no test looks at its end
            running.over.set()
            return
        last = running.log.read_bytes()[-TAIL_BYTES:].decode(errors="replace") if code else ""
        reason = "OOMKilled" if running.fate == "OOMKilled" else "Error" if code else "Completed"
        ended = {"exitCode": code, "reason": reason, "message": last, "finishedAt": _now()}
        why: Json = {}
        if running.fate == "Evicted":
            why = {
                "reason": "Evicted",
                "message": "The node was low on resource: ephemeral-storage.",
            }
        self._tell(running.pod, "Failed" if code else "Succeeded", {"terminated": ended}, why)
        with self._changed:
            running.over.set()
            self._changed.notify_all()

    def _stop(self, running: Running, pod: Json) -> None:
        _kill(running.process, signal.SIGTERM)
        if not running.over.wait(pod["metadata"].get("deletionGracePeriodSeconds") or 0):
            _kill(running.process, signal.SIGKILL)
            running.over.wait()
        self._gone(pod)

    def _gone(self, pod: Json) -> None:
        about = pod["metadata"]
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": about["uid"]}}
        with suppress(ApiException, HTTPError):
            self._core.delete_namespaced_pod(about["name"], about["namespace"], body=body)

    def _tell(
        self, pod: Json, phase: str, state: Json, why: Mapping[str, str] | None = None
    ) -> None:
        """Until the server has heard it, or knows the pod no more."""
        about, (container,) = pod["metadata"], pod["spec"]["containers"]
        is_ready = phase == "Running"
        told = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "restartCount": 0,
        }
        conditions = [
            {"type": name, "status": str(is_ready)} for name in ("Ready", "ContainersReady")
        ]
        status = {
            "phase": phase,
            "podIP": ADDRESS,
            "conditions": conditions,
            "containerStatuses": [{**told, "state": state, "ready": is_ready, "started": is_ready}],
            **(why or {}),
        }
        while not self._closed.is_set():
            try:
                self._core.patch_namespaced_pod_status(
                    about["name"], about["namespace"], {"status": status}
                )
                return
            except ApiException as e:
                if e.status in (404, 409, 422):
                    return
            except HTTPError:
                """The server is away."""
            self._closed.wait(AGAIN_S)


def _lines(stream: Any) -> Iterator[bytes]:
    rest = b""
    for piece in stream.stream(65536):
        *lines, rest = (rest + piece).split(b"\n")
        yield from filter(None, lines)


def _kill(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""The cluster that these tests run in (see `tests/cluster/whole.py`), as kubectl sees it.

Does not belong here: what is expected of it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.client import Headgate

ROOT = Path(__file__).parents[2]
HANGS = "--timeout=600s"  # nothing here takes as long: what does, hangs
CONTROL, DATA = "headgate", "headgate-data"


class NoCluster(RuntimeError):
    """The tests were not started inside of a cluster."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """`home` holds the logs of its parts."""

    home: Path

    @classmethod
    def around(cls) -> Cluster:
        if "TEST_CLUSTER_HOME" not in os.environ:
            raise NoCluster("these tests run inside of a whole cluster: make test-k8s")
        return cls(Path(os.environ["TEST_CLUSTER_HOME"]))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints; AssertionError with its message if it fails."""
        done = subprocess.run(["kubectl", *arguments], capture_output=True, text=True, input=stdin, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def refusal(self, *arguments: str, stdin: str | None = None) -> str:
        """Why kubectl fails."""
        done = subprocess.run(["kubectl", *arguments], capture_output=True, text=True, input=stdin, check=False)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def get(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("get", *arguments, "--output=json"))
        return found

    def secret(self, name: str, key: str) -> str:
        found = self.get("secret", name, "--namespace", CONTROL)
        return base64.b64decode(found["data"][key]).decode()

    def address(self, service: str) -> str:
        """The host and port at which pods, and this process, reach a service."""
        spec = self.get("service", service, "--namespace", CONTROL)["spec"]
        return f"{spec['clusterIP']}:{spec['ports'][0]['port']}"

    def client(self) -> Headgate:
        return Headgate(f"http://{self.address('headgate')}", self.secret("headgate-admin", "token"))

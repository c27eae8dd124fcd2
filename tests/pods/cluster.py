"""The cluster that these tests run in (see `tests/cluster/whole.py`), as kubectl, API and readers
of tables show it.

Does not belong here: what is expected of it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from deltalake import DeltaTable

from controlplane.client import Headgate
from controlplane.core.model.answers import DataflowStatus, DriverStatus
from controlplane.core.model.leases import LOOP
from controlplane.drivers.manifests import DRIVER
from tests.e2e.workspace import until
from tests.there import there

LOCAL = Path(__file__).parents[2] / "deploy" / "overlays" / "local"
HANGS = "--timeout=600s"  # nothing here takes as long: what does, hangs
CONTROL, DATA = "headgate", "headgate-data"
COMPONENT = "app.kubernetes.io/component"
SERVES, LOOPS = ("headgate",), "controlplane"  # Deployments, and the component with the loop
MOVING = ("stale", "building")
# events, of which one comes every 15 s at the latest: what does not come with them never comes
MANY = 200

Json = dict[str, Any]


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
        done = subprocess.run(
            ["kubectl", *arguments], capture_output=True, text=True, input=stdin, check=False
        )
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def refusal(self, *arguments: str, stdin: str | None = None) -> str:
        """Why kubectl fails."""
        done = subprocess.run(
            ["kubectl", *arguments], capture_output=True, text=True, input=stdin, check=False
        )
        assert done.returncode != 0, done.stdout
        return done.stderr

    def get(self, *arguments: str) -> Json:
        found: Json = json.loads(self.kubectl("get", *arguments, "--output=json"))
        return found

    def install(self) -> None:
        """`kubectl apply -k`, as anybody would, and all that is then waited for."""
        self.kubectl("apply", "--kustomize", str(self._overlay()))
        self._give("shop", password=self.secret("headgate-database", "password"))
        for name in (
            "statefulset/postgresql",
            "statefulset/s3",
            *(f"deployment/{name}" for name in SERVES),
        ):
            self.kubectl("rollout", "status", name, "--namespace", CONTROL, HANGS)
        self.kubectl(
            "wait",
            "--for=condition=complete",
            "job/headgate-migrate",
            "--namespace",
            CONTROL,
            HANGS,
        )

    def _give(self, name: str, **values: str) -> None:
        """A Secret that users' blueprints may name."""
        said = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "stringData": values,
        }
        self.kubectl("create", "--namespace", DATA, "--filename=-", stdin=json.dumps(said))

    def _overlay(self) -> Path:
        """`local` on a file of pools in which as many small drivers as tasks are worth while, two
        at most. One of them that has nothing to do ends at once, and a large one: the node has no
        room for all. Packages are on all pods."""
        made = self.home / "overlay"
        made.mkdir()
        pools = json.loads((LOCAL / "pools.json").read_text())
        pools["secrets"] = ["shop"]
        pools["pools"]["small"] |= {"maximum": 2, "tasks_each": 1, "idle_s": 5}
        pools["pools"]["large"] |= {"idle_s": 5, "memory": "5Gi"}
        pools["sessions"] = {"cpu": "100m", "memory": "1700Mi", "maximum": 1}
        pools["env"] |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/data/wheels"}
        changed = {
            "name": "headgate-pools",
            "namespace": CONTROL,
            "behavior": "merge",
            "files": ["pools.json"],
        }
        said = {"resources": [os.path.relpath(LOCAL, made)], "configMapGenerator": [changed]}
        (made / "pools.json").write_text(json.dumps(pools))
        (made / "kustomization.yaml").write_text(json.dumps(said))
        return made

    def secret(self, name: str, key: str) -> str:
        found = self.get("secret", name, "--namespace", CONTROL)
        return base64.b64decode(found["data"][key]).decode()

    def address(self, service: str) -> str:
        """The host and port at which pods, and this process, reach a service."""
        spec = self.get("service", service, "--namespace", CONTROL)["spec"]
        return f"{spec['clusterIP']}:{spec['ports'][0]['port']}"

    def client(self) -> Headgate:
        return Headgate(
            f"http://{self.address('headgate')}", self.secret("headgate-admin", "token")
        )

    # the control plane

    def leader(self) -> tuple[str, int]:
        """The pod that leads, and the epoch; no pod while nobody does."""
        found = self.query(
            "SELECT holder, epoch FROM leases"
            f" WHERE name = '{LOOP}' AND until > extract(epoch FROM now())"
        )
        return (found[0][0].partition("/")[0], found[0][1]) if found else ("", 0)

    def replicas(self) -> dict[str, Json]:
        """Pods of the control plane that are to stay, by name."""
        found = self.get("pods", "--namespace", CONTROL, f"--selector={COMPONENT}={LOOPS}")["items"]
        return {
            pod["metadata"]["name"]: pod
            for pod in found
            if "deletionTimestamp" not in pod["metadata"]
        }

    @contextmanager
    def changed(self, template: Json) -> Iterator[None]:
        """Meanwhile replicas are made by another template, and one of these leads."""
        place, patch = (
            ("--namespace", CONTROL),
            json.dumps({"spec": {"template": {"spec": template}}}),
        )
        self.kubectl(
            "patch", "deployment", "headgate", *place, "--type=strategic", f"--patch={patch}"
        )
        try:
            self._rolled_out()
            yield
        finally:
            self.kubectl("rollout", "undo", "deployment/headgate", *place)
            self._rolled_out()

    def _rolled_out(self) -> None:
        self.kubectl("rollout", "status", "deployment/headgate", "--namespace", CONTROL, HANGS)
        until(lambda: self.leader()[0] in self.replicas(), lambda: f"{self.leader()} leads")

    # the data plane

    def pods(self, component: str) -> list[Json]:
        """Those of the data plane that are to run, or do."""
        found = self.get("pods", "--namespace", DATA, f"--selector={COMPONENT}={component}")[
            "items"
        ]
        return [
            p
            for p in found
            if p["status"]["phase"] in ("Pending", "Running")
            and "deletionTimestamp" not in p["metadata"]
        ]

    def jobs(self) -> list[Json]:
        """Those that are not over."""
        found = self.get("jobs", "--namespace", DATA)["items"]
        return [
            job
            for job in found
            if not any(c["status"] == "True" for c in job["status"].get("conditions", ()))
        ]

    def log(self) -> str:
        """Of the loop."""
        place = ("--namespace", CONTROL, f"--selector={COMPONENT}={LOOPS}")
        return self.kubectl("logs", *place, "--tail=-1", "--all-containers")

    def waits(self, words: str, id: str = "") -> DriverStatus:
        """The driver or worker, of this id or of any, that the status says this of, once it
        does."""
        drivers: list[DriverStatus] = []
        with self.client() as client:
            for _ in chain([None], islice(client.events(), MANY)):
                drivers = client.status()["drivers"]
                if found := [d for d in drivers if words in d["reason"] and d["id"].startswith(id)]:
                    return found[0]
        raise AssertionError(f"nobody waits for {words!r}: {drivers}")

    def told(self, words: str, since: str = "") -> None:
        """The log of the loop says so, after what it said before."""
        until(lambda: words in self.log().removeprefix(since), lambda: f"never told: {words!r}")

    def rows(self, table: str | None) -> pa.Table:
        return self.delta(table).to_pyarrow_table()

    def delta(self, table: str | None) -> DeltaTable:
        """A published table in the object store."""
        options = {
            "AWS_ENDPOINT_URL": f"http://{self.address('s3')}",
            "AWS_ACCESS_KEY_ID": self.secret("headgate-lake", "AWS_ACCESS_KEY_ID"),
            "AWS_SECRET_ACCESS_KEY": self.secret("headgate-lake", "AWS_SECRET_ACCESS_KEY"),
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        return DeltaTable(there(table), storage_options=options)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the metadata database, for what no answer shows."""
        host, _, port = self.address("postgresql").partition(":")
        password = self.secret("headgate-database", "password")
        with psycopg.connect(
            host=host, port=port, user="headgate", password=password, dbname="headgate"
        ) as connection:
            return connection.execute(sql.encode()).fetchall()

    # what is left behind

    def assert_tidy(self, most: int = 1) -> None:
        """No attempt is open, no pod or Secret is without its owner, every Job is a driver that the
        status knows, and no pool has more of them than it may."""
        open_attempts = self.query("SELECT dataset, driver FROM attempts")
        assert open_attempts == [], open_attempts
        until(lambda: not self._orphans(), lambda: f"nobody's: {self._orphans()}")
        until(lambda: not self._unknown(), lambda: f"unknown: {self._unknown()}")
        pools = Counter(job["metadata"]["name"].rsplit("-", 2)[0] for job in self.jobs())
        assert max(pools.values()) <= most, pools

    def _unknown(self) -> set[str]:
        """Ids of drivers and workers that only one side takes for alive."""
        with self.client() as client:
            alive = {d["id"] for d in client.status()["drivers"] if d["state"] != "ended"}
        return alive ^ {job["metadata"]["annotations"][DRIVER] for job in self.jobs()}

    def _orphans(self) -> list[str]:
        kinds = ("jobs", "pods", "secrets")
        found = [item for kind in kinds for item in self.get(kind, "--namespace", DATA)["items"]]
        there = {item["metadata"]["uid"] for item in found}
        owned = [
            (item["metadata"]["name"], item["metadata"].get("ownerReferences", ()))
            for item in found
        ]
        return [
            name for name, owners in owned if any(owner["uid"] not in there for owner in owners)
        ]


def moving(client: Headgate, flow: str) -> list[str]:
    """Datasets of a dataflow that are not yet what they are going to be."""
    (found,) = client.status(flow)["dataflows"]
    return [d["name"] for d in (*found["datasets"], *found["targets"]) if d["state"] in MOVING]


def settled(client: Headgate, flow: str) -> DataflowStatus:
    """The dataflow's status, once nothing of it moves any more."""
    for _ in client.events():
        if not moving(client, flow):
            break
    (found,) = client.status(flow)["dataflows"]
    return found


def tables(cluster: Cluster, flow: DataflowStatus) -> Iterator[tuple[str, pa.Table]]:
    for dataset in flow["datasets"]:
        yield dataset["name"].partition(".")[2], cluster.rows(dataset["table"])

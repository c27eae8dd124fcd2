"""A dataflow whose transform waits, where it has rows, until it is let go: time for something to
happen to its pod.

Does not belong here: what happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from textwrap import indent

import pyarrow as pa

from controlplane.client import Headgate
from controlplane.core.model.answers import ApplyAnswer, WhyAnswer
from controlplane.core.model.tasks import Size
from controlplane.drivers.manifests import DRIVER
from tests.e2e.workspace import until
from tests.pods import node
from tests.pods.cluster import Cluster, Json, moving, settled

SOURCE = """
dataflow: source
components:
  airlines:
    read: {connector: files, path: /data/airlines.csv, format: csv, options: {header: true}, refresh: 1h}
"""
FLOW = """
dataflow: {name}
components:
  named:
    resources: {size}
    transform:
      python: |
{code}
      inputs: {{airlines: {{from: source.airlines, mode: all}}}}
"""
BY_MONTH = """
dataflow: {name}
components:
  flights:
    read:
      connector: files
      path: /data/flights/2013-0[1-3].csv
      format: csv
      options: {{header: true}}
      refresh: 1h
  named:
    resources: {size}
    transform:
      python: |
{code}
      inputs: {{flights: each}}
"""
WAIT = """
import os
import time

def wait():
    open("/tmp/{name}.begun", "w").close()
    while not os.path.exists("/tmp/{name}.go"):
        time.sleep(0.1)
"""
IN_THE_DRIVER = """
def transform(airlines):
    if not airlines.isEmpty():
        wait()
    return airlines.select("carrier", "name")
"""
OF_A_MONTH = """
def transform(flights):
    if not flights.isEmpty():
        wait()
    return flights.select("carrier", "flight")
"""
IN_AN_EXECUTOR = """
from pyspark.sql.functions import udf

def waited(name):
    wait()
    return name

def transform(airlines):
    return airlines.select("carrier", udf(waited)("name").alias("name"))
"""


@dataclass(frozen=True, slots=True)
class Gated:
    """One such dataflow, named after what is to happen."""

    cluster: Cluster
    client: Headgate
    name: str

    def apply(self, size: Size, code: str = IN_THE_DRIVER, flow: str = FLOW) -> ApplyAnswer:
        whole = indent(WAIT.format(name=self.name) + code, " " * 8)
        text = flow.format(name=self.name, size=size, code=whole)
        return self.client.apply([{"name": f"/{self.name}.yaml", "text": text}])

    def unfinished(self, component: str = "driver") -> Json:
        """The pod in which it waits, once it does."""

        def look() -> Json:
            pods = self.cluster.pods(component) if node.is_anywhere(f"{self.name}.begun") else ()
            return next((pod for pod in pods if self.is_started(pod)), {})

        return until(look, lambda: f"{self.name} does not begin: {self.client.status()['drivers']}")

    def is_started(self, pod: Json) -> bool:
        place = node.folder(pod)
        return place is not None and (place / f"{self.name}.begun").exists()

    def let_go(self, component: str = "driver") -> None:
        self.open(self.unfinished(component))

    def let_all_go(self) -> None:
        """Until nothing of it moves: a pod that waits may be killed for what else it does, then
        another one waits."""

        def look() -> bool:
            for pod in filter(self.is_started, self.cluster.pods("driver")):
                with suppress(FileNotFoundError, AssertionError):  # killed just now
                    self.open(pod)
            return not moving(self.client, self.name)

        until(look, lambda: f"{self.name} goes on: {self.client.status()['drivers']}")

    def open(self, pod: Json) -> None:
        """Let what waits in this pod go."""
        place = node.folder(pod)
        assert place is not None, pod["metadata"]["name"]
        (place / f"{self.name}.go").touch()

    def ended(self, words: str, pod: Json | None = None) -> None:
        """`status` says so of the driver (in this pod, or whichever), and `why` of the task that it
        had."""
        driver = pod["metadata"]["annotations"][DRIVER] if pod else ""
        found = self.cluster.waits(words, driver)
        assert found["state"] == "ended", found
        assert words in str(self._why()["error"])

    def held_up(self, words: str) -> None:
        """`status` says so of the driver that is to come, and `why` of the dataset that waits for
        it."""
        found = self.cluster.waits(words)
        assert found["state"] == "waiting", found
        assert found["id"] in [d["id"] for d in self._why()["drivers"] if words in d["reason"]]

    def _why(self) -> WhyAnswer:
        return self.client.why(f"{self.name}.named")

    def assert_right(self, expected: pa.Table, drivers: int = 1) -> None:
        """It settles: the rows are right, came in one commit, and nothing is left behind."""
        flow = settled(self.client, self.name)
        assert flow["state"] == "up_to_date", flow
        (named,) = (d for d in flow["datasets"] if d["name"] == f"{self.name}.named")
        table = self.cluster.delta(named["table"])
        assert sorted(_rows(table.to_pyarrow_table(), expected)) == sorted(
            _rows(expected, expected)
        )
        assert (named["generation"], len(table.history())) == (1, 1)
        self.cluster.assert_tidy(drivers)


def assert_right(flows: Sequence[Gated], expected: pa.Table, drivers: int = 1) -> None:
    """Of each, once all have settled: nothing may be under way when it is asked what is left
    behind."""
    for flow in flows:
        settled(flow.client, flow.name)
    for flow in flows:
        flow.assert_right(expected, drivers)


def job_of(pod: Json) -> str:
    (owner,) = pod["metadata"]["ownerReferences"]
    return str(owner["name"])


def _rows(table: pa.Table, like: pa.Table) -> list[tuple[object, ...]]:
    """In the order of its columns."""
    return list(zip(*(table[name].to_pylist() for name in like.column_names), strict=True))

"""The flights example with its lake on S3: one driver reads the sources, executor pods of another
compute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from controlplane import demo
from controlplane.cli import sources
from controlplane.client import Headgate
from controlplane.core.model.answers import DataflowStatus
from controlplane.demo.data import lay_out
from tests.e2e.tables import DATASETS, Truth
from tests.pods.cluster import Cluster, moving, settled, tables


@dataclass(frozen=True)
class Made:
    """The dataflow's status in the end, and components that pods had on the way."""

    flow: DataflowStatus
    pods: dict[str, str]  # name -> component


@pytest.fixture(scope="module")
def flights(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    blueprint = adapted(tmp_path_factory.mktemp("flights"))
    with installed.client() as client:
        client.apply(sources.as_documents(sources.load([blueprint])))
        pods = watched(installed, client)
        yield Made(settled(client, "flights"), pods)


def adapted(folder: Path) -> Path:
    """Raw files are in the image of the data plane, below /data, where executors do not look; what
    is made of them is computed by executors, and written to a folder that a pod may write."""
    for found in sorted(demo.blueprint_folder().rglob("*.py")):
        copy = folder / found.relative_to(demo.blueprint_folder())
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(found.read_text())
    text = (demo.blueprint_folder() / "flights.yaml").read_text()
    said = yaml.safe_load(
        text.replace("path: data/", "path: /data/").replace("path: out/", "path: /tmp/")
    )
    for component in said["components"].values():
        if "transform" in component:
            component["resources"] = "large"
    target = folder / "flights.yaml"
    target.write_text(yaml.safe_dump(said))
    return target


def watched(cluster: Cluster, client: Headgate) -> dict[str, str]:
    """Pods that there are while it is made."""
    seen: dict[str, str] = {}
    for _ in client.events():
        for component in ("driver", "worker", "executor"):
            seen |= {pod["metadata"]["name"]: component for pod in cluster.pods(component)}
        if not moving(client, "flights"):
            return seen
    raise AssertionError("events have ended")


def test_tables_equal_what_duckdb_computes_from_the_raw_files(
    installed: Cluster, flights: Made, tmp_path: Path
) -> None:
    assert flights.flow["state"] == "up_to_date", flights.flow
    lay_out(tmp_path)
    truth, found = Truth(tmp_path), dict(tables(installed, flights.flow))
    assert set(found) == set(DATASETS)
    for name, table in found.items():
        truth.assert_equal(name, table)


def test_worker_drivers_and_executors_were_pods(installed: Cluster, flights: Made) -> None:
    assert set(flights.pods.values()) == {"worker", "driver", "executor"}
    drivers = {
        name.rsplit("-", 3)[0] for name, component in flights.pods.items() if component == "driver"
    }
    assert drivers == {"headgate-driver-standard", "headgate-driver-large"}
    installed.assert_tidy()

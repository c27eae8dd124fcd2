"""One installation of the overlay `local`, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv
import pytest

from controlplane.client import Headgate
from controlplane.demo.data import lay_out
from tests.pods.cluster import Cluster, settled
from tests.pods.gated import SOURCE


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster.around()


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    cluster.install()
    return cluster


@pytest.fixture(scope="session")
def airlines(client: Headgate, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """Rows of the dataset that all of these dataflows read."""
    client.apply([{"name": "/source.yaml", "text": SOURCE}])
    assert settled(client, "source")["state"] == "up_to_date"
    folder = tmp_path_factory.mktemp("raw")
    lay_out(folder)
    return pa.csv.read_csv(folder / "airlines.csv")


@pytest.fixture(scope="session")
def client(installed: Cluster) -> Iterator[Headgate]:
    with installed.client() as client:
        yield client

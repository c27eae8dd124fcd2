"""One installation of the overlay `local`, for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.pods.cluster import CONTROL, HANGS, ROOT, SERVES, Cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster.around()


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    """`kubectl apply -k`, as anybody would, and all that is then waited for."""
    cluster.kubectl("apply", "--kustomize", str(ROOT / "deploy" / "overlays" / "local"))
    for name in ("statefulset/postgresql", "statefulset/s3", *(f"deployment/{name}" for name in SERVES)):
        cluster.kubectl("rollout", "status", name, "--namespace", CONTROL, HANGS)
    return cluster

"""One installation of the overlay `local`, for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.pods.cluster import CONTROL, HANGS, ROOT, Cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster.around()


@pytest.fixture(scope="session")
def installed(cluster: Cluster) -> Cluster:
    """`kubectl apply -k`, as anybody would, and all that is then waited for."""
    cluster.kubectl("apply", "--kustomize", str(ROOT / "deploy" / "overlays" / "local"))
    for kind in (
        "statefulset/postgresql",
        "statefulset/s3",
        "deployment/headgate-api",
        "deployment/headgate-reconciler",
    ):
        cluster.kubectl("rollout", "status", kind, "--namespace", CONTROL, HANGS)
    return cluster

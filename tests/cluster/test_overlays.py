"""What `deploy/` asks for is what a real API server takes, with every field known to it and no
warning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.control import ControlPlane

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.mark.parametrize("overlay", ["local", "production"])
def test_an_overlay_is_accepted_as_it_is(plane: ControlPlane, overlay: str) -> None:
    plane.kubectl("apply", "--filename", str(DEPLOY / "base" / "namespaces.yaml"))
    strictly = ("--dry-run=server", "--validate=strict", "--warnings-as-errors")
    taken = plane.kubectl("apply", *strictly, "--kustomize", str(DEPLOY / "overlays" / overlay))
    for part in ("deployment.apps/headgate", "job.batch/headgate-migrate"):
        assert f"{part} created (server dry run)" in taken

"""One API server for all tests of this folder; a namespace, roles and pools for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.control import ControlPlane
from tests.cluster.site import Site

# Nodes here are no machines: nobody is to find them gone.
FLAGS = ("-controllers", "*,-node-lifecycle-controller,-taint-eviction-controller")


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    plane = ControlPlane(FLAGS)
    try:
        yield plane.start()
    finally:
        plane.remove()


@pytest.fixture
def site(plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    site = Site(plane, tmp_path)
    try:
        yield site
    finally:
        site.close()

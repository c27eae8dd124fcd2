"""Tree nodes are kept once in a process, for its loop and for its questions."""

from __future__ import annotations

from pathlib import Path

from controlplane import settings
from controlplane.bootstrap import Server
from controlplane.core.model.branches import MAIN
from controlplane.core.model.namespaces import DEFAULT
from controlplane.parts.api_services import driver_services
from tests.unit.reconciler.nowhere import Nowhere
from tests.unit.reconciler.test_reasons import Pool


def test_the_loop_and_questions_share_the_nodes_of_a_namespace(tmp_path: Path) -> None:
    with Server(settings.read(tmp_path), "look") as server:
        loop = server.leading._reconciler(server.store, Nowhere(), Pool())
        planners = driver_services(server, server.pools).planners
        caches = {
            loop._planner.cache,
            planners.of(server.store, DEFAULT, MAIN).cache,
            server.context("local").planners.of(server.store, DEFAULT, MAIN).cache,
        }
        assert len(caches) == 1
        assert planners.of(server.store, "other", MAIN).cache not in caches

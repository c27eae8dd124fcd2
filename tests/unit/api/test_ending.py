"""A server that ends at once, with requests under way."""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress
from dataclasses import replace

import httpx2
import pytest

from controlplane.api.edge import LazyServices
from controlplane.api.serving import Serving
from tests.unit.api.world import World


def test_requests_that_are_cut_off_are_no_faults(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def unready() -> str:
        asked.set()
        go_on.wait()
        return ""

    services = replace(world.services, unready=unready)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        api = Serving(services, LazyServices(lambda: services), bound, lambda: None)
        api.start()
        url = f"http://127.0.0.1:{bound.getsockname()[1]}/readyz"

        def ask() -> None:
            with suppress(httpx2.TransportError):
                httpx2.get(url, trust_env=False)

        asking = threading.Thread(target=ask)
        asking.start()
        asked.wait()
        with caplog.at_level(logging.ERROR):
            api._listener.end(at_once=True)
            asking.join()
            go_on.set()
            api.join()
    assert [record.getMessage() for record in caplog.records] == []

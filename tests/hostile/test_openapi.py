"""The API is as its own document says, whatever is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from dataplane.contract import Json
from tests.hostile.attacked import Attacked, attacked


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with attacked(tmp_path_factory.mktemp("home")) as world:
        world.gate.set()
        yield world


def document(world: Attacked) -> Json:
    with world.http() as http:
        return http.get("/openapi.json").json()


def test_every_reference_leads_somewhere(world: Attacked) -> None:
    found = document(world)
    for reference in re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(found)):
        node = found
        for part in reference.split("/"):
            assert part in node, reference
            node = node[part]


def test_every_route_declares_its_problems(world: Attacked) -> None:
    for path, operations in document(world)["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                assert status < "400" or list(response["content"]) == ["application/problem+json"], (path, method)
            assert path.startswith("/v1/") <= ({"401", "403", "422", "503"} <= set(operation["responses"]))

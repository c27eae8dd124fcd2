"""The API is as its own document says, whatever is sent."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.api.auth import LINK
from dataplane.contract.schemas import Json
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
                assert status < "400" or list(response["content"]) == [
                    "application/problem+json"
                ], (path, method)
            told = {"403", "422", "503"} if path == LINK else {"401", "403", "422", "503"}
            assert path.startswith("/v1/") <= (told <= set(operation["responses"]))


# What a schema cannot say: whether a text is a blueprint, a time or a pattern, whether a key or
# revision was used before, what a signature is, and whether a branch is protected (403).
CONFIG = """
[[operations]]
include-path = "/v1/links/{link}/{file}"
checks.positive_data_acceptance.expected-statuses = ["403"]

[[operations]]
include-path-regex = "blueprints|dataflows|gc|fsck|re(fresh|try|sume)|pause|pla|run|branch|merge|audit|tokens|link|que"
checks.positive_data_acceptance.expected-statuses = ["2xx", "403", "404", "409", "412", "422"]

[[operations]]
include-path-regex = "/feeds|/shares|/recipients|/trust|/roles|/namespaces|/tests"
checks.positive_data_acceptance.expected-statuses = ["2xx", "404", "409", "422"]
"""
# One never ends, one waits, one revokes our token
WITHOUT = ("/v1/events", "/v1/connections", "/v1/tokens/{id}")


@pytest.mark.parametrize(
    ("phases", "examples"),
    [("fuzzing", 3), pytest.param("examples,coverage,fuzzing", 100, marks=pytest.mark.soak)],
)
def test_schemathesis_finds_nothing(
    world: Attacked, tmp_path: Path, phases: str, examples: int
) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"]
    command += [
        f"{world.url}/openapi.json",
        "-H",
        f"Authorization: Bearer {world.admin}",
        "--checks",
        "all",
    ]
    command += [
        "--phases",
        phases,
        "--max-examples",
        str(examples),
        "--seed",
        "1",
        "--continue-on-failure",
    ]
    for path in WITHOUT:
        command += ["--exclude-path", path]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Test cases:" in done.stdout

"""Names on Tab: by a real bash, from a running service; nothing without one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.home import Home
from tests.unit.api.conftest import world  # noqa: F401  # a fixture
from tests.unit.api.world import BLUEPRINT, World

BASH = """\
source <(headgate completion bash)
COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_headgate_completion headgate
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("HEADGATE_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return kept | {"PATH": path, "HEADGATE_HOME": str(tmp_path / "home")}


def completed(environment: dict[str, str], *words: str) -> list[str]:
    """What bash offers for the last word."""
    script = BASH.format(words=" ".join(f"'{word}'" for word in ("headgate", *words)))
    command = ["bash", "-c", script]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return run.stdout.split()


def test_commands_and_options(environment: dict[str, str]) -> None:
    assert completed(environment, "part") == ["partitions", "partition"]
    assert completed(environment, "completion", "") == ["bash", "zsh", "fish"]
    assert "--branch" in completed(environment, "why", "--br")


def test_without_a_service_no_names_are_offered_and_none_is_started(
    environment: dict[str, str],
) -> None:
    assert completed(environment, "why", "sh") == []
    assert not Home(Path(environment["HEADGATE_HOME"])).is_there()


def test_names_of_a_service(world: World, environment: dict[str, str]) -> None:  # noqa: F811  # the fixture
    with world.client() as client:
        client.apply([{"name": "/data/shop.yaml", "text": BLUEPRINT}])
    served = environment | {"HEADGATE_URL": world.url, "HEADGATE_TOKEN": world.admin}
    assert completed(served, "why", "shop.or") == ["shop.orders"]
    assert "shop" in completed(served, "status", "")
    assert completed(served, "why", "--branch", "ma") == ["main"]
    refused = served | {"HEADGATE_TOKEN": "hg_wrong"}
    assert completed(refused, "why", "sh") == []

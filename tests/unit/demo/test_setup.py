"""What the set-up scripts say on machines that lack something; run for real, with a PATH of
stubs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest

ROOT = Path(__file__).parents[3]
TOOLS = ("cat", "cksum", "dirname", "make", "rm", "sed", "sh", "tr")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the tools of any machine, and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        folder.joinpath(tool).symlink_to(str(which(tool)))
    return folder


@pytest.fixture
def run(programs: Path) -> Run:
    def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": str(programs), **environment}
        return subprocess.run(
            command, env=variables, cwd=ROOT, capture_output=True, text=True, check=False
        )

    return run


def test_no_python(run: Run) -> None:
    assert "Python 3.11 or newer is needed, found none: install one" in one_line(
        run("scripts/find-python")
    )


def python(path: Path, version: str, is_new: bool) -> None:
    """A stub that answers both questions of the script, which version it is and if that will do,
    and can no more."""
    answers = f"-c*exit*) exit {0 if is_new else 1};; -c*) echo {version};; *) exit 1;;"
    path.write_text(f'#!/bin/sh\ncase "$1$2" in {answers} esac\n')
    path.chmod(0o755)


def test_a_python_that_is_too_old(programs: Path, run: Run) -> None:
    python(programs / "python3", "3.9.18", is_new=False)
    assert "found 3.9.18 (python3): install one" in one_line(run("scripts/find-python"))


def test_the_newest_python_that_runs_is_taken(programs: Path, run: Run) -> None:
    # As a shim of a version that is not installed
    programs.joinpath("python3.14").symlink_to("/bin/false")
    python(programs / "python3.12", "3.12.1", is_new=True)
    python(programs / "python3", "3.9.18", is_new=False)
    assert run("scripts/find-python").stdout.strip() == str(programs / "python3.12")
    assert "found 3.9.18 (python3)" in one_line(run("scripts/find-python", PYTHON="python3"))


def test_a_python_without_venv(programs: Path, run: Run, tmp_path: Path) -> None:
    """On a copy of the scripts alone, since they work in the folder that they lie in."""
    checkout = tmp_path / "checkout"
    checkout.joinpath("scripts").mkdir(parents=True)
    for script in ROOT.joinpath("scripts").iterdir():
        checkout.joinpath("scripts", script.name).symlink_to(script)
    python(programs / "python3", "3.12.1", is_new=True)
    line = one_line(run(str(checkout / "scripts" / "find-uv")))
    assert line.endswith(
        "cannot make virtual environments: install its venv module (apt install python3-venv)"
    )


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """What a failed script said: exactly one line, on stderr."""
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    return line

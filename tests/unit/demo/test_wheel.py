"""The wheel holds all that is needed at run time, and works apart from this checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("controlplane", "dataplane", "headgate")
PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
import controlplane.__main__
import controlplane.demo, dataplane.contract, headgate
from controlplane.services.editor import project_files
for module in (controlplane, dataplane.contract, headgate):
    assert module.__file__.startswith(sys.argv[1]), module.__file__
assert len(project_files.project_files("shop")) == 8
print(controlplane.demo.blueprint_folder())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
    )
    [found] = folder.iterdir()
    return found


def packaged(root: Path) -> set[str]:
    """The files of all packages, as paths in a wheel."""
    paths = (path for package in PACKAGES for path in (root / package).rglob("*"))
    return {str(p.relative_to(root)) for p in paths if p.is_file() and "__pycache__" not in p.parts}


def test_it_holds_every_file_of_the_packages_and_the_example(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    example = {
        f"controlplane/demo/flights/{name}"
        for name in ("flights.yaml", "transforms/trend.py", "transforms/seasons.py")
    }
    workflow = "controlplane/services/editor/project/github-actions.yaml"  # of a new project
    assert names == packaged(ROOT) | example | {workflow}
    assert {
        "controlplane/store/migrations/env.py",
        "controlplane/py.typed",
        "dataplane/py.typed",
    } <= names


@pytest.mark.slow
def test_installed_elsewhere_it_imports_and_finds_its_example(wheel: Path, tmp_path: Path) -> None:
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(tmp_path),
    ]
    subprocess.run([*pip, str(wheel)], check=True)
    probe = subprocess.run(
        [sys.executable, "-c", PROBE, str(tmp_path)],
        cwd="/",
        check=True,
        capture_output=True,
        text=True,
    )
    folder = Path(probe.stdout.strip())
    assert folder == tmp_path / "controlplane" / "demo" / "flights"
    assert (folder / "flights.yaml").read_bytes() == (
        ROOT / "blueprints" / "flights" / "flights.yaml"
    ).read_bytes()
    assert (tmp_path / "bin" / "headgate").is_file()

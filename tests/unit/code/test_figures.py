"""`scripts/measure-code` fails on a tree that is worse than its committed figures, and says which
file it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit
SCRIPT = Path(__file__).parents[3] / "scripts" / "measure-code"
PAGE = """# Architecture
<!-- measured: scripts/measure-code --write -->
<!-- end of measured -->
The end.
"""
CODE = '''"""Adds numbers."""


class Sum:
    """A sum."""


def add(left: int, right: int) -> int:
    """Adds two numbers."""
    total = left + right
    return total
'''


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], cwd=root, capture_output=True, text=True
    )


def git(root: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=root, check=True
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one module, whose figures are committed."""
    for folder in ("controlplane", "scripts", "docs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "docs" / "architecture.md").write_text(PAGE)
    (tmp_path / "controlplane" / "adding.py").write_text(CODE)
    assert run(tmp_path, "--write").returncode == 0
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def test_an_equal_tree_passes_and_the_page_has_its_figures(tree: Path) -> None:
    found = run(tree)
    assert (found.returncode, found.stderr) == (0, "")
    page = (tree / "docs" / "architecture.md").read_text()
    assert "| controlplane (1 files, 0.0k code lines) |" in page
    assert page.endswith("<!-- end of measured -->\nThe end.\n")


@pytest.mark.parametrize(
    ("better", "worse", "complaint"),
    [
        ("return total", "return total + 0", "controlplane: tokens grew from 24 to 26"),
        ("total", "_found", "controlplane: generic names grew from 0 to 1"),
        ("total", "result", "controlplane: placeholder names grew from 0 to 1"),
        ("total", "told_sum", "controlplane: house words grew from 0 to 1"),
        (
            "Adds two numbers.",
            "Adds. Of two numbers.",
            "controlplane: vague sentences grew from 0 to 1",
        ),
        (
            "Adds two numbers.",
            "What is there is added.",
            "controlplane: vague sentences grew from 0 to 1",
        ),
    ],
)
def test_a_worse_tree_fails_and_names_the_file(
    tree: Path, better: str, worse: str, complaint: str
) -> None:
    module = tree / "controlplane" / "adding.py"
    module.write_text(CODE.replace(better, worse))
    found = run(tree)
    assert found.returncode == 1
    assert f"{complaint}; in files changed since then: controlplane/adding.py +" in found.stderr
    assert "scripts/measure-code --write" in found.stderr
    assert run(tree, "--write").returncode == 0
    assert run(tree).returncode == 0


def test_names_are_doubled_across_planes(tree: Path) -> None:
    (tree / "dataplane").mkdir()
    (tree / "dataplane" / "adding.py").write_text("class Sum:\n    pass\n")
    found = run(tree)
    assert found.returncode == 1
    assert (
        "product: doubled classes grew from 0 to 1; in files changed since then: dataplane/adding.py (Sum)"
        in (found.stderr)
    )
    assert "product: doubled file names grew from 0 to 1" in found.stderr


def test_names_that_the_layout_gives_are_not_doubled(tree: Path) -> None:
    for folder in ("controlplane/cli", "controlplane/ports", "controlplane/services/adding"):
        (tree / folder).mkdir(parents=True)
    places = (
        "cli/adding.py",
        "ports/adding.py",
        "services/adding/port.py",
        "ports/port.py",
        "__main__.py",
    )
    for place in places:
        (tree / "controlplane" / place).touch()
    assert run(tree, "--write").returncode == 0
    product = json.loads((tree / "scripts" / "code-figures.json").read_text())["product"]
    assert (product["doubled_files"], product["same_files"]) == (0, 2)


def test_a_better_tree_passes_and_may_be_committed_to(tree: Path) -> None:
    (tree / "controlplane" / "adding.py").write_text(CODE.replace(" + right", ""))
    found = run(tree)
    assert found.returncode == 0
    assert "Keep them so: scripts/measure-code --write" in found.stdout


def test_a_page_with_other_figures_fails(tree: Path) -> None:
    page = tree / "docs" / "architecture.md"
    page.write_text(page.read_text().replace("| product |", "| product? |"))
    assert run(tree).returncode == 1

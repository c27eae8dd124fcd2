"""A test that fails among others and passes alone does not end a run; one that may have found a
wrong result does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import rerun

PROJECT = Path(__file__).parents[2]
CONFTEST = """
from tests.conftest import pytest_configure
from tests import rerun

def pytest_terminal_summary(terminalreporter):
    rerun.write_failures(terminalreporter)
"""
BY_CHANCE = """
import os, pathlib

def test_first_time():
    seen = pathlib.Path("seen")
    is_first = not seen.exists()
    seen.touch()
    assert not is_first
"""


def run(folder: Path, tests: str) -> subprocess.CompletedProcess[str]:
    """`tests.rerun` over one file of tests in a folder of its own."""
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_it.py").write_text(tests, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "tests.rerun", "-p", "no:cacheprovider", "test_it.py"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_one_that_passes_alone_is_named_and_the_run_passes(tmp_path: Path) -> None:
    result = run(tmp_path, BY_CHANCE)
    assert result.returncode == 0, result.stdout
    assert "unstable, to be mended next" in result.stdout
    outputs = (tmp_path / rerun.OUTPUTS).read_text()
    assert "assert not is_first" in outputs
    assert "1 passed" in outputs


def test_one_that_fails_alone_as_well_fails_the_run(tmp_path: Path) -> None:
    result = run(tmp_path, "def test_it():\n    assert 1 == 2\n")
    assert result.returncode == 1
    assert "failed once more, alone" in result.stdout


@pytest.mark.parametrize(
    ("failures", "reason"),
    [
        ({"tests/property/test_by.py::test_truth": "E  assert 1"}, "guards against wrong results"),
        ({"tests/hostile/test_sql.py::test_it": ""}, "guards against wrong results"),
        ({"tests/e2e/test_crashes.py::test_it[parse]": ""}, "guards against wrong results"),
        ({"tests/e2e/test_by.py::test_it": ">   assert rows(home) == expected"}, "compares rows"),
        ({"tests/e2e/test_by.py::test_it": "E   assert result.rows == 3"}, "compares rows"),
        ({f"tests/unit/test_{n}.py::test_it": "" for n in range(3)}, "3 tests failed"),
        ({}, "belongs to no test"),
    ],
)
def test_what_may_be_a_wrong_result_is_never_run_again(
    failures: dict[str, str], reason: str
) -> None:
    assert reason in str(rerun.refusal(failures))


def test_a_few_others_are() -> None:
    failures = {
        "tests/browser/test_live.py::test_it": "E   assert 'narrow' in text",
        "tests/e2e/test_ci.py::test_b": "",
    }
    assert rerun.refusal(failures) is None

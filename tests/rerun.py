"""Runs pytest, and each failed test once more, alone: `python -m tests.rerun [arguments of
pytest]`.

Ten thousand tests on real servers take the better part of an hour, and one of them that fails by
chance would cost that hour again. A test that fails among all others and passes alone is
*unstable*: the run passes, its end names the test, and both outputs are in `build/unstable.txt`. An
unstable test is mended before anything else.

A test whose failure could be a wrong result is never run again: properties, hostile input, kills
and outages, and each statement that compares rows. More failures than `MOST` are no chance.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

MOST = 2
# Names the file for a run's failures; tests unset what begins with HEADGATE_
REPORT = "FAILED_TESTS_OF_RUN"
OUTPUTS = Path("build", "unstable.txt")
NEVER = (
    "tests/property/",
    "tests/hostile/",
    "tests/store/test_kills.py",
    "tests/store/test_outage",
    "tests/e2e/test_crashes.py",
    "tests/e2e/test_lost_files.py",
    "tests/spark/test_oracle.py",
)
TESTS_FAILED = 1  # pytest's exit code where tests failed, and nothing worse happened
_FAILED_STATEMENT = re.compile(r"^[>E] .*\brows?\b", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Exit code of the run; 0 too where each failed test passed when it ran alone."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "failed.json"
        status = _pytest(arguments, {REPORT: str(report)}).returncode
        if status != TESTS_FAILED or not report.exists():
            return status
        failures: dict[str, str] = json.loads(report.read_text(encoding="utf-8"))
    reason = refusal(failures)
    if reason:
        _say(f"no test is run again: {reason}")
        return status
    return _run_alone(failures)


def refusal(failures: Mapping[str, str]) -> str | None:
    """Why a run with these failures (output by test) has failed for good; None where they may be
    run again."""
    if not failures:
        return "the failure belongs to no test"
    if len(failures) > MOST:
        return f"{len(failures)} tests failed, more than {MOST}"
    for test, output in failures.items():
        if test.startswith(NEVER):
            return f"{test} guards against wrong results"
        if _FAILED_STATEMENT.search(output):
            return f"{test} compares rows"
    return None


def write_failures(reporter: pytest.TerminalReporter) -> None:
    """The failed tests of this process's run with their outputs, where `main` reads them."""
    target = os.environ.get(REPORT)
    if not target:
        return
    failures: dict[str, str] = {}
    for report in [*reporter.stats.get("failed", ()), *reporter.stats.get("error", ())]:
        output = "\n".join([report.longreprtext, *(text for _, text in report.sections)])
        failures[report.nodeid] = failures.get(report.nodeid, "") + output
    Path(target).write_text(json.dumps(failures), encoding="utf-8")


def _run_alone(failures: Mapping[str, str]) -> int:
    OUTPUTS.parent.mkdir(exist_ok=True)
    with OUTPUTS.open("w", encoding="utf-8") as file:
        for test, output in failures.items():
            again = _pytest(["-q", test], {}, capture=True)
            file.write(f"{test}\n\n--- among all tests\n{output}\n\n--- alone\n{again.stdout}\n\n")
            if again.returncode:
                _say(f"{again.stdout}\n{test} failed once more, alone")
                return TESTS_FAILED
    _say(f"unstable, to be mended next ({OUTPUTS} has both outputs): {', '.join(failures)}")
    _say(f"===== all tests passed, {len(failures)} of them only alone =====")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _pytest(
    arguments: Sequence[str], environment: Mapping[str, str], *, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", *arguments]
    output = subprocess.PIPE if capture else None
    return subprocess.run(
        command,
        env={**os.environ, **environment},
        stdout=output,
        stderr=subprocess.STDOUT if capture else None,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

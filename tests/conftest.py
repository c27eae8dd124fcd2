"""Holds for every test: no setting of the user leaks in, random examples repeat, parts are marked and timed.

Does not belong here: fixtures that only some tests need.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import slices

TESTS = Path(__file__).parent
SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=SLOW_IS_FINE)
settings.register_profile(
    "soak", deadline=None, max_examples=20_000, print_blob=True, suppress_health_check=SLOW_IS_FINE
)
settings.load_profile("default")


def pytest_configure() -> None:
    of_stores = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_", "HADOOP_")
    for name in [name for name in os.environ if name.startswith(("HEADGATE_", *of_stores))]:
        del os.environ[name]
    os.environ[slices.NAME] = str(slices.TURN)  # workers are to take the same
    os.environ["HEADGATE_JVM"] = "-XX:TieredStopAtLevel=1"  # tests are short


def pytest_report_header() -> str:
    return f"slice of sweeps: {slices.NAME}={slices.TURN}"


def part(path: Path) -> str:
    """The folder below `tests` that a test lies in, which is also its marker."""
    return path.relative_to(TESTS).parts[0]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(part(item.path))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    seconds: dict[str, float] = defaultdict(float)
    for report in (
        r for reports in terminalreporter.stats.values() for r in reports if isinstance(r, pytest.TestReport)
    ):
        seconds[part(terminalreporter.config.rootpath / report.nodeid.partition("::")[0])] += report.duration
    parts = (f"{name} {total / 60:.1f}" for name, total in sorted(seconds.items()))
    terminalreporter.write_line(f"minutes in tests: {', '.join(parts)}")
    terminalreporter.write_line(f"the same slices of sweeps once more: {slices.NAME}={slices.TURN}")

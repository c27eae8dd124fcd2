"""Holds for every test: no setting of the user leaks in, random examples repeat, parts are marked
and timed.

Does not belong here: fixtures that only some tests need.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import httpcore2
import pytest
from hypothesis import HealthCheck, settings

from tests import order, rerun, slices

TESTS = Path(__file__).parent
pytest_plugins = ["tests.shared_servers", "tests.spark_session"]

LONG_MIN = 0.5  # files that take so long are told at the end
SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "default", deadline=None, derandomize=True, suppress_health_check=SLOW_IS_FINE
)
settings.register_profile(
    "soak", deadline=None, max_examples=20_000, print_blob=True, suppress_health_check=SLOW_IS_FINE
)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-examples", action="store_true", help="write the examples of OpenAPI anew"
    )


def pytest_configure() -> None:
    of_stores = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_", "HADOOP_")
    for name in [name for name in os.environ if name.startswith(("HEADGATE_", *of_stores))]:
        del os.environ[name]
    os.environ[slices.NAME] = str(slices.TURN)  # workers are to take the same
    # Without byte code each process that a test starts compiles all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Each client reads all certificates
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)
    os.environ["HEADGATE_JVM"] = "-XX:TieredStopAtLevel=1"  # tests are short


def pytest_report_header() -> str:
    return f"slice of sweeps: {slices.NAME}={slices.TURN}"


def part(path: Path) -> str:
    """The folder below `tests` that a test lies in, which is also its marker."""
    return path.relative_to(TESTS).parts[0]


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Markers come before tests are chosen by them, the order after pytest has found its own."""
    for item in items:
        item.add_marker(part(item.path))
    yield
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: -order.minutes(item.path.relative_to(TESTS).as_posix()))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    parts: dict[str, float] = defaultdict(float)
    files: dict[str, float] = defaultdict(float)
    for report in (
        r
        for reports in terminalreporter.stats.values()
        for r in reports
        if isinstance(r, pytest.TestReport)
    ):
        path = terminalreporter.config.rootpath / report.nodeid.partition("::")[0]
        parts[part(path)] += report.duration / 60
        files[path.relative_to(TESTS).as_posix()] += report.duration / 60
    long = {name: total for name, total in files.items() if total >= LONG_MIN}
    terminalreporter.write_line(
        f"minutes in long files: {_told(sorted(long.items(), key=lambda one: -one[1]))}"
    )
    terminalreporter.write_line(f"minutes in tests: {_told(sorted(parts.items()))}")
    terminalreporter.write_line(f"the same slices of sweeps once more: {slices.NAME}={slices.TURN}")
    rerun.write_failures(terminalreporter)


def _told(minutes: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {total:.1f}" for name, total in minutes)

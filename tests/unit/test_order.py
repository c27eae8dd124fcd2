"""The table of long test files names files that there are."""

from __future__ import annotations

from pathlib import Path

from tests import order

TESTS = Path(order.__file__).parent


def test_long_files_are_there() -> None:
    assert [name for name in order.MINUTES if not (TESTS / name).is_file()] == []

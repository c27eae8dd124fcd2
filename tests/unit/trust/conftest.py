"""A service that trusts an issuer, for each test anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.trust.world import Trusting, trusting


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Trusting]:
    with trusting(tmp_path) as found:
        yield found

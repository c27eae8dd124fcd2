"""Names that no other test uses."""

from __future__ import annotations

from itertools import count

import pytest

NUMBERS = count()


@pytest.fixture
def name() -> str:
    return f"t{next(NUMBERS)}"

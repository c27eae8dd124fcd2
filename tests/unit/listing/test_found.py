"""How much may be gone before somebody is asked."""

from __future__ import annotations

import pytest

from controlplane.operations.work.listing_diff import is_too_much


@pytest.mark.parametrize(
    ("gone", "before", "share", "expected"),
    [
        (29, 100, 0.29, False),
        (30, 100, 0.29, True),
        (7, 100, 0.07, False),
        (0, 100, 0.0, False),
        (1, 100, 0.0, True),
    ],
)
def test_a_share_is_what_is_written(gone: int, before: int, share: float, expected: bool) -> None:
    assert is_too_much(gone, before, share) is expected

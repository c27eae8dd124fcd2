"""When a changed contract of a feed promises no less than the one before."""

from __future__ import annotations

import pytest

from controlplane.core.schema.contracts import broken_promises
from controlplane.core.schema.ddl_schemas import parse_ddl


@pytest.mark.parametrize(
    ("before", "after", "is_kept"),
    [
        ("k INT", "k INT", True),
        ("k INT", "more STRING, k INT", True),
        ("k INT", "k BIGINT", True),
        ("k INT", "k DECIMAL(12,2)", True),
        ("k DECIMAL(5,2)", "k DECIMAL(7,2)", True),
        ("k FLOAT", "k DOUBLE", True),
        ("k STRUCT<a: INT>", "k STRUCT<a: BIGINT, b: STRING>", True),
        ("k ARRAY<INT>", "k ARRAY<BIGINT>", True),
        ("k INT", "j INT", False),
        ("k INT", "K INT", False),
        ("k BIGINT", "k INT", False),
        ("k INT", "k STRING", False),
        ("k STRING", "k INT", False),
        ("k BIGINT", "k DOUBLE", False),
        ("k DECIMAL(7,2)", "k DECIMAL(7,3)", False),
        ("k STRUCT<a: INT, b: INT>", "k STRUCT<a: INT>", False),
    ],
)
def test_more_columns_and_types_that_hold_all_values(
    before: str, after: str, *, is_kept: bool
) -> None:
    assert (broken_promises(parse_ddl(before), parse_ddl(after)) == ()) == is_kept

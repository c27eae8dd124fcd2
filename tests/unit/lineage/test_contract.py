"""How steps add up, and what bounds the lineage of one transform."""

from __future__ import annotations

import pytest

from dataplane.contract.transform_lineage import (
    EVERY,
    MOST_ORIGINS,
    Subtype,
    Tracing,
    Value,
    after,
    merged,
)


@pytest.mark.parametrize(
    ("step", "before", "found"),
    [
        ("IDENTITY", "AGGREGATION", "AGGREGATION"),
        ("TRANSFORMATION", "IDENTITY", "TRANSFORMATION"),
        ("TRANSFORMATION", "AGGREGATION", "AGGREGATION"),
        ("AGGREGATION", "WINDOW", "WINDOW"),
        ("CONDITIONAL", "AGGREGATION", "CONDITIONAL"),
    ],
)
def test_one_step_upon_another(step: Subtype, before: Subtype, found: Subtype) -> None:
    assert after(step, before) == found


def test_of_too_many_columns_whole_inputs_are_named() -> None:
    wide = merged(Value({("in", f"c{n}"): frozenset({"IDENTITY"})}) for n in range(100))
    few = Tracing().lineage({f"c{n}": wide for n in range(MOST_ORIGINS // 100)})
    assert len(few["fields"]["c0"]["inputFields"]) == 100
    assert few["over_reported"] == []
    many = Tracing().lineage({f"c{n}": wide for n in range(MOST_ORIGINS // 100 + 1)})
    assert [one["field"] for one in many["fields"]["c0"]["inputFields"]] == [EVERY]
    assert "whole inputs" in many["over_reported"][0]

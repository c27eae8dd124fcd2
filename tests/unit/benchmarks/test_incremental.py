"""Ratios of the incremental benchmark are taken within a round. Does not belong here: times."""

from __future__ import annotations

from benchmarks.incremental import ratios


def test_ratios_of_a_round() -> None:
    plain = {
        "session": 3.0,
        "tables": {"lineitem": 2.0, "orders": 1.0},
        "first": {"q1": 2.0, "q2": 2.0},
        "again": [{"q1": 1.0, "q2": 3.0}, {"q1": 1.5, "q2": 2.5}],
        "hashed": 3.0,
    }
    headgate = {"first": 12.0, "all": [1.0, 2.0], "one": {"q1": 0.25}}
    found = ratios({"plain": plain, "headgate": headgate})
    assert found == {"first": 1.2, "hashing": 0.25, "all": 0.375, "q1": 0.2}

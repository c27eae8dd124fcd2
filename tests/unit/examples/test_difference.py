"""How rows differ from those that are expected."""

from __future__ import annotations

import pytest

from controlplane.core.examples.row_difference import Changed, Difference, difference

pytestmark = pytest.mark.unit


def differs(
    expected: list, found: list, tolerance: float = 1e-9, *, is_ordered: bool = False
) -> Difference:
    return difference(expected, found, tolerance=tolerance, is_ordered=is_ordered)


def test_rows_are_a_multiset() -> None:
    assert not differs([["a", 1], ["b", 2]], [["b", 2], ["a", 1]])
    assert differs([["a"], ["a"]], [["a"]]) == Difference(missing=(["a"],))
    assert differs([["a"]], [["a"], ["a"]]) == Difference(unexpected=(["a"],))
    assert differs([], []) == Difference()


def test_floats_are_near() -> None:
    assert not differs([[0.1 + 0.2]], [[0.3]])
    assert not differs([[1000.0]], [[1000.9]], 0.001)
    assert differs([[0.5]], [[0.6]], 0.01)
    assert not differs([[{"a": [1.0]}]], [[{"a": [1.0 + 1e-12]}]])
    assert differs([[1]], [[1.0]])  # another type is another value
    assert differs([[True]], [[1]])


def test_order_matters_where_it_is_asked_for() -> None:
    assert differs([[1], [2]], [[2], [1]], is_ordered=True) == Difference(moved=0)
    assert not differs([[1], [2]], [[1], [2]], is_ordered=True)


def test_changed_cells_are_told_by_a_key() -> None:
    found = differs([[1, "x", 2.0], [2, "y", 3.0]], [[1, "x", 2.0], [2, "z", 3.0]])
    assert found == Difference(changed=(Changed([2, "y", 3.0], [2, "z", 3.0], (1,)),))
    # The first column alone tells no rows apart; both first ones do.
    found = differs([["a", 1, True], ["a", 2, True]], [["a", 1, True], ["a", 2, False]])
    assert [(one.cells, list(one.actual)) for one in found.changed] == [((2,), ["a", 2, False])]
    # No key: rows stay as they are.
    assert differs([[1.5]], [[2.5]]) == Difference(missing=([1.5],), unexpected=([2.5],))

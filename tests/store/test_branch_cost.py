"""The cost of a branch as a contract: what is written and read does not depend on how large main
is.

No time is measured here (benchmarks/branches.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from benchmarks.planning import ours
from benchmarks.planning.branch_costs import Beside, Cost
from benchmarks.planning.graph import Shape
from benchmarks.planning.seed import Seeder
from controlplane.store import upgrade

SMALL, LARGE = (
    Shape(layers=2, width=2, columns=2, partitions=1),
    Shape(layers=6, width=8, columns=2, partitions=1),
)
CREATE = 9  # statements: is it there, the row, the audit, its event, marks
ROWS = 3  # the branch, the audit, a mark
DEV = "dev"


@pytest.fixture
def beside(empty_database: Callable[[], str]) -> Iterator[Callable[[Shape], Beside]]:
    with ExitStack() as ends:

        def made(shape: Shape) -> Beside:
            url = empty_database()
            upgrade(url)
            store = ours.open_counted(url)
            Seeder(store, shape).seed("done")
            store.close()
            found = Beside(url, shape)
            ends.callback(found.close)
            found.one_pass()
            return found

        yield made


@pytest.mark.parametrize("pinned", [False, True])
def test_making_one_writes_no_row_per_component(
    beside: Callable[[Shape], Beside], pinned: bool
) -> None:
    costs = []
    for shape in (SMALL, LARGE):
        main = beside(shape)
        main.create("first", pinned=pinned)
        costs.append(main.create(DEV, pinned=pinned))
    small, large = costs
    assert (large.rows, large.statements) == (small.rows, small.statements)
    assert large.rows == ROWS
    assert large.statements <= CREATE + (3 if pinned else 0)
    assert large.states == 0


def test_a_read_through_it_is_one_look_up_more(beside: Callable[[Shape], Beside]) -> None:
    main = beside(LARGE)
    main.create(DEV)
    for read in (main.head, main.heads, main.text):
        of_main, of_branch = read(ours.MAIN), read(DEV)
        assert of_branch.statements <= of_main.statements + 1
        assert of_branch.states == of_main.states
    with main.store.read() as tx:
        tx.states.newest(DEV, [LARGE.root])
        before = main.store.statements
        tx.states.newest(DEV, [LARGE.sink])
        assert main.store.statements - before == 1  # as in main: the branch itself is known by now


def test_where_nothing_was_edited_nothing_is_planned_and_no_state_of_main_is_read(
    beside: Callable[[Shape], Beside],
) -> None:
    first: list[Cost] = []
    warm: list[int] = []
    for shape in (SMALL, LARGE):
        main = beside(shape)
        alone = main.one_pass().statements
        main.create(DEV)
        first.append(main.one_pass())
        assert main.planned(DEV) == 0
        again = main.one_pass()
        assert again.states == 0
        warm.append(again.statements - alone)
    small, large = first
    assert (small.states, large.states) == (0, 0)
    assert large.statements == small.statements
    assert max(warm) <= 3

"""The generations of a dataset, page by page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from controlplane.operations.context import Context
from controlplane.operations.inspect import datasets
from tests.store.examples import state
from tests.stores import new_store

DAILY = "flights.daily"


def with_generations(generations: Sequence[int]) -> Context:
    """A dataset whose states are of these generations, oldest first."""
    ctx = Context(new_store())
    with ctx.store.begin() as tx:
        for number, generation in enumerate(generations, 1):
            tx.states.commit(
                state(number, DAILY, generation=generation, partitions=number), number - 1
            )
    return ctx


def pages(ctx: Context, limit: int) -> Iterator[list[tuple[int, int]]]:
    """Of each generation the number that it was given with the oldest state that it has."""
    before: int | None = None
    while True:
        found = datasets.history(ctx, "main", DAILY, before=before, limit=limit)
        yield [(i["generation"], i["partitions"]) for i in found["items"]]
        before = found["next"]
        if before is None:
            return


@pytest.mark.parametrize("limit", [1, 2, 3, 12, 100])
def test_pages_hold_every_generation_once(limit: int) -> None:
    found = list(pages(with_generations(range(1, 13)), limit))
    assert [one for page in found for one in page] == [(n, n) for n in range(12, 0, -1)]
    assert max(map(len, found)) == min(limit, 12)


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_a_generation_of_many_states_is_told_once_by_its_first(limit: int) -> None:
    generations = [1, 2, *[3] * 20, 4, *[5] * 9, 6]
    found = [one for page in pages(with_generations(generations), limit) for one in page]
    assert found == [(n, generations.index(n) + 1) for n in range(6, 0, -1)]

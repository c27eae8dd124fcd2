"""What work cost: sums that equal a recount of attempts, of the datasets that a token sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.model.answers.spending import CostFigures
from controlplane.core.model.efforts import DAY_S
from controlplane.core.model.past_attempts import PastAttempt
from controlplane.core.rights import TokenScope, principal_of
from controlplane.operations.context import Context
from controlplane.operations.inspect import spending
from tests.store.examples import past
from tests.unit.expectations.world import BRANCH, World

REST = """\
    owner: ann
  dear: {owner: bob, transform: {sql: 'SELECT k, v FROM orders WHERE v > 0'}}
  total: {transform: {sql: 'SELECT sum(v) AS v FROM dear'}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    for number in range(3):
        world.put(f"{number}.csv", (number, number + 1))
    world.apply(REST)
    world.settle()
    world.now += DAY_S
    world.put("3.csv", (3, -4))
    world.settle()
    more = [past(f"p{n}", dataset="shop.dear", ended_at=world.now, seconds=n / 8) for n in range(9)]
    with world.store.begin() as tx:
        tx.past_attempts.put(more)
    yield world
    world.store.close()


def attempts(world: World) -> list[PastAttempt]:
    with world.store.read() as tx:
        return list(tx.past_attempts.newest(BRANCH, limit=20_000))


def recounted(own: list[PastAttempt]) -> tuple[int, int, float, int, int]:
    return (
        len(own),
        sum(a.done for a in own),
        round(sum(a.seconds or 0.0 for a in own), 3),
        sum(a.bytes_read or 0 for a in own),
        sum(a.bytes_written for a in own),
    )


def figures(row: CostFigures) -> tuple[int, int, float, int, int]:
    return (
        row["attempts"],
        row["tasks"],
        row["seconds"],
        row["bytes_read"],
        row["bytes_written"],
    )


def test_each_figure_equals_a_recount_of_attempts(world: World) -> None:
    every = attempts(world)
    owners = {"shop.orders": "ann", "shop.dear": "bob", "shop.total": ""}
    answer = spending.cost(world.ctx, BRANCH, 7, None, 100)
    assert figures(answer["total"]) == recounted(every)
    names = {
        "dataflows": lambda a: a.dataset.partition(".")[0],
        "components": lambda a: a.dataset,
        "owners": lambda a: owners[a.dataset],
        "days": lambda a: spending.day_text(int(a.ended_at // DAY_S)),
    }
    for table, name_of in names.items():
        rows = {row["name"]: figures(row) for row in answer[table]["rows"]}  # type: ignore[literal-required]  # the four tables
        assert rows.keys() == {name_of(a) for a in every}
        for name, row in rows.items():
            assert row == recounted([a for a in every if name_of(a) == name])
    assert len(answer["days"]["rows"]) == 2
    assert answer["total"]["unchanged"] == 1, "a row that is filtered out changes no sum"


def test_fewer_days_and_a_target_count_less(world: World) -> None:
    today = [a for a in attempts(world) if a.ended_at >= world.now // DAY_S * DAY_S]
    assert figures(spending.cost(world.ctx, BRANCH, 1, None, 100)["total"]) == recounted(today)
    own = [a for a in today if a.dataset == "shop.dear"]
    answer = spending.cost(world.ctx, BRANCH, 1, "shop.dear", 100)
    assert figures(answer["total"]) == recounted(own)
    assert [row["name"] for row in answer["components"]["rows"]] == ["shop.dear"]


def test_a_day_that_does_not_fit_is_left_out_whole(world: World) -> None:
    with world.store.read() as tx:
        shorter = spending.read(world.ctx, tx, BRANCH, 7, lambda _: True, most=4)
        assert shorter == spending.read(world.ctx, tx, BRANCH, 1, lambda _: True)


def test_only_datasets_that_the_token_sees_are_counted(world: World) -> None:
    principal = principal_of(("view",), TokenScope(datasets=("shop.dear",)), {})
    narrow = Context(world.store, lake="memory:lake", principal=principal)
    answer = spending.cost(narrow, BRANCH, 7, None, 100)
    assert figures(answer["total"]) == recounted(
        [a for a in attempts(world) if a.dataset == "shop.dear"]
    )
    assert [row["name"] for row in answer["owners"]["rows"]] == ["bob"]


def test_rows_beyond_the_limit_are_counted(world: World) -> None:
    components = spending.cost(world.ctx, BRANCH, 7, None, 1)["components"]
    assert (len(components["rows"]), components["left_out"]) == (1, 2)
    assert components["rows"][0]["name"] == "shop.dear", "the dearest first"

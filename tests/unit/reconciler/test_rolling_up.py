"""The loop rolls slices up once their hour is over, and says why it does not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from controlplane.cli import why_views
from controlplane.core import tree
from controlplane.core.model.roll_ups import FEWEST, is_span
from controlplane.operations.inspect import causes, datasets
from controlplane.operations.work import claims, reports
from controlplane.reconciler.rolling_up import LOOK_S, RollingUp
from controlplane.store.sql.store import SqlStore
from dataplane.contract.claims import CONTRACT
from tests.store.examples import revision
from tests.unit.reconciler.test_lag import EMPTY, NAME, finds
from tests.unit.reconciler.test_streams import STREAM, Place

PYTHON = """\
  spelled:
    transform: {python: "def transform(messages):\\n    return messages", inputs: {messages: each}}
"""


def with_slices(count: int) -> Place:
    place = Place()
    ends = range(10, 10 * count + 10, 10)
    finds(place, place.asked_to_list(), *ends)
    while claim := claims.claim(place.ctx, "worker", CONTRACT, ["parse"]):
        results = [
            {"task": task["task"], "epoch": task["epoch"], "state": "done", **EMPTY}
            for task in claim["tasks"]
        ]
        reports.report(place.ctx, "worker", claim["attempt"], results, lake=place.lake)
    place.loop.tick()
    return place


def keys(place: Place) -> list[str]:
    with place.ctx.read() as tx:
        state = tx.states.newest("main")[NAME]
        return [entry.key for entry in tree.scan(tx.nodes, state.root)]


def test_an_hour_that_is_over_is_one_partition() -> None:
    place = with_slices(FEWEST + 1)
    rolling_up = RollingUp(place.ctx.store, "default")
    assert not rolling_up.step(0.0)
    place.now += 3600
    assert not rolling_up.step(LOOK_S - 1), "it looks now and then"
    assert rolling_up.step(LOOK_S)
    place.loop.tick()
    assert [is_span(key) for key in keys(place)] == [True, False]
    assert claims.claim(place.ctx, "driver", CONTRACT, ["parse"]) is None
    answer = causes.why(place.ctx, "main", NAME)
    span = f"{1:012}-{FEWEST:012}"
    assert answer["sentence"] == f"slices of {NAME} were rolled up: {span}"
    lines = why_views.why(answer)[0]
    assert (
        "slices: 16 slices or more of an hour are rolled up, once the hour is over and every "
        "dataset has them" in lines.lines  # type: ignore[union-attr]  # lines
    )


def test_the_dataset_says_why_slices_stay_apart() -> None:
    place = with_slices(FEWEST + 1)
    place.apply(STREAM + PYTHON)
    place.now += 3600
    assert not RollingUp(place.ctx.store, "default").step(0.0)
    answer = datasets.dataset(place.ctx, "main", NAME)
    assert answer["roll_up"] == (  # type: ignore[typeddict-item]  # of a dataset
        "slices are not rolled up: stream.spelled reads stream.messages by partition, "
        "and is not proven to be row-wise"
    )


def test_a_dataflow_that_does_not_compile_keeps_slices_apart() -> None:
    place = with_slices(FEWEST + 1)
    with place.ctx.begin() as tx:
        tx.blueprints.put(revision(dataflow="broken", text="dataflow: broken\ncomponents: 7\n"), 0)
    place.now += 3600
    rolling_up = RollingUp(place.ctx.store, "default")
    assert not rolling_up.step(0.0)
    answer = datasets.dataset(place.ctx, "main", NAME)
    assert answer["roll_up"].startswith("slices are not rolled up: a dataflow does not compile")  # type: ignore[typeddict-item]  # of a dataset
    with place.ctx.begin() as tx:
        tx.blueprints.delete_dataflow("main", "broken")
    assert rolling_up.step(LOOK_S)


@contextmanager
def statements(place: Place) -> Iterator[list[str]]:
    """Those that read, as this thread executes them: tables are published by another one."""
    executed: list[str] = []
    own = threading.get_ident()
    assert isinstance(place.ctx.store, SqlStore)
    engine = place.ctx.store._engines.reader

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        if threading.get_ident() == own:
            executed.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield executed
    finally:
        event.remove(engine, "before_cursor_execute", note)


def test_a_look_at_rest_is_one_statement() -> None:
    place = with_slices(FEWEST + 1)
    rolling_up = RollingUp(place.ctx.store, "default")
    rolling_up.step(0.0)
    with statements(place) as at_rest:
        assert not rolling_up.step(LOOK_S)
    assert len(at_rest) == 1
    place.now += 3600
    with statements(place) as in_the_next_hour:
        assert rolling_up.step(2 * LOOK_S)
    assert len(in_the_next_hour) > 1


def test_slices_that_were_looked_at_are_not_read_again() -> None:
    """Too few in an hour: they stay, and the next look begins behind them."""
    place = with_slices(FEWEST - 1)
    rolling_up = RollingUp(place.ctx.store, "default")
    place.now += 3600
    assert not rolling_up.step(0.0)
    finds(place, place.asked_to_list(), 1_000)
    with statements(place) as executed:
        assert not rolling_up.step(LOOK_S)
    assert not [statement for statement in executed if "FROM source_partitions" in statement]

"""How far a stream's dataset is behind what its last listing found: in status, alerts and
metrics."""

from __future__ import annotations

import pytest

from controlplane.api.driver_services import Counters
from controlplane.api.metrics import lags_of, render
from controlplane.cli import views
from controlplane.core.alerts import Key
from controlplane.core.model.answers import DatasetAnswer, DatasetStatus, SourceLag
from controlplane.operations.alerts.conditions import current_conditions
from controlplane.operations.desired import controls
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.inspect import datasets, overview
from dataplane.connectors.kafka.kafka_listing import listed_at, object_of
from dataplane.connectors.kafka.kafka_server import OffsetBounds, Topic
from dataplane.contract.claims import ListClaim
from dataplane.contract.results import infrastructure_error
from dataplane.contract.schemas import struct_of
from dataplane.listing.listed_partitions import listed
from tests.there import there
from tests.unit.listing.location import after, told
from tests.unit.reconciler.test_streams import OTHER, STREAM, Place

TOPIC = Topic("t", "id", ())
NAME = "stream.messages"
EMPTY = {"schema": struct_of([]), "content": [0, 0, 0], "files": [], "metrics": {}}


@pytest.fixture
def place() -> Place:
    return Place()


def finds(place: Place, claim: ListClaim | None, *ends: int) -> None:
    """A listing whose new slices end there."""
    assert claim is not None
    known = there(claim["job"]["known"])
    first = max((o["detail"]["end"] for o in known["objects"]), default=0)
    slices, number = [], int(after(claim) or 0)
    for end in ends:
        number += 1
        of = object_of(TOPIC, OffsetBounds(0, first, end))
        slices.append(listed(f"{number:012}", [listed_at(int(place.now * 1000), of)], ()))
        first = end
    place.report(claim, {"result": {**told(slices), "after": after(claim)}})
    place.loop.tick()


def lag_of(place: Place) -> SourceLag:
    [flow] = overview.status(place.ctx, "main")["dataflows"]
    [dataset] = flow["datasets"]
    return dataset["lag"]


def test_a_stream_that_was_not_listed_has_no_lag_that_is_known(place: Place) -> None:
    lag = lag_of(place)
    assert (lag["rows"], lag["seconds"]) == (None, None)
    assert "first listing" in lag["sentence"]


def test_lag_is_what_is_listed_and_not_committed(place: Place) -> None:
    finds(place, place.asked_to_list(), 250)
    place.now += 30
    assert lag_of(place)["rows"] == 250
    assert lag_of(place)["seconds"] == 30.0
    assert lag_of(place)["sentence"] == "250 rows behind, the oldest listed 30 s ago"
    place.computes(**EMPTY)
    assert (lag_of(place)["rows"], lag_of(place)["seconds"]) == (0, 0.0)
    finds(place, place.asked_to_list(), 260)
    place.now += 5
    assert (lag_of(place)["rows"], lag_of(place)["seconds"]) == (10, 5.0)


def test_the_oldest_slice_counts_while_newer_ones_come(place: Place) -> None:
    """A slice that fails does not stop listings."""
    finds(place, place.asked_to_list(), 100)
    began = place.now
    place.computes(state="failed", error={**infrastructure_error("X", "no"), "kind": "user"})
    finds(place, place.asked_to_list(), 300)
    assert lag_of(place)["rows"] == 300
    assert lag_of(place)["seconds"] == place.now - began


def test_a_failed_listing_is_said_as_there_may_be_more(place: Place) -> None:
    place.report(there(place.asked_to_list()), {"result": {**told([]), "after": None}})
    claim = there(place.asked_to_list())
    place.report(claim, {"state": "failed", "error": infrastructure_error("X", "no")})
    assert "there may be more" in lag_of(place)["sentence"]


def test_a_dataset_says_how_many_rows_came_in_a_minute(place: Place) -> None:
    finds(place, place.asked_to_list(), 100)
    place.computes(**{**EMPTY, "content": [100, 0, 0]})
    assert rows_last_minute(place) == 100
    place.now += 61
    assert rows_last_minute(place) == 0


def rows_last_minute(place: Place) -> int:
    answer: DatasetAnswer = datasets.dataset(place.ctx, "main", NAME)  # type: ignore[assignment]
    return answer["rows_last_minute"]


def test_rows_that_wait_for_long_are_an_alert_but_not_of_what_is_paused(place: Place) -> None:
    finds(place, place.asked_to_list(), 100)
    assert conditions(place) == {}
    place.now += 11
    assert conditions(place) == {
        (NAME, "late"): "100 rows behind, the oldest listed 11 s ago",
    }
    place.apply(STREAM.replace("read:", "paused: true, read:"))
    assert conditions(place) == {}


def conditions(place: Place) -> dict[Key, str]:
    with place.ctx.read_plan("main") as (plan, facts):
        return {**current_conditions(facts, plan.decisions)}


def test_a_cron_streams_rows_are_late_at_its_next_time_and_a_manual_ones_never(
    place: Place,
) -> None:
    place.apply(STREAM.replace("continuous", '"cron: 0 6 * * *"'))
    finds(place, place.asked_to_list(), 100)
    place.computes(state="failed", error={**infrastructure_error("X", "no"), "kind": "user"})
    place.now += 3600
    assert (NAME, "late") not in conditions(place)
    place.now += 86400
    place.loop.tick()
    finds(place, place.listing())
    assert "100 rows behind" in conditions(place)[NAME, "late"]
    place.apply(STREAM.replace("continuous", "manual"))
    assert lag_of(place)["rows"] == 100
    assert (NAME, "late") not in conditions(place)


def test_of_another_topic_nothing_is_committed(place: Place) -> None:
    finds(place, place.asked_to_list(), 250)
    place.computes(**EMPTY)
    place.apply(STREAM.replace("topic: t,", "topic: u,"))
    finds(place, place.asked_to_list(), 100)
    place.now += 5
    assert (lag_of(place)["rows"], lag_of(place)["seconds"]) == (100, 5.0)
    place.apply(STREAM)
    assert lag_of(place)["rows"] == 0, "all of the first topic is still there"


def test_metrics_leave_out_what_is_paused(place: Place) -> None:
    finds(place, place.asked_to_list(), 100)
    assert set(lags_of(datasets_of(place))) == {NAME}
    controls.pause(place.ctx, "main", NAME)
    assert lags_of(datasets_of(place)) == {}


def test_status_says_that_there_may_be_more_where_nothing_is_behind(place: Place) -> None:
    place.report(there(place.asked_to_list()), {"result": {**told([]), "after": None}})
    assert "lag:" not in status_text(place)
    claim = there(place.asked_to_list())
    place.report(claim, {"state": "failed", "error": infrastructure_error("X", "no")})
    line = f"lag: {NAME}: 0 rows behind; there may be more, as its last listing failed"
    assert line in status_text(place)


def status_text(place: Place) -> str:
    return str(views.status(overview.status(place.ctx, "main")))


def datasets_of(place: Place) -> list[DatasetStatus]:
    [flow] = overview.status(place.ctx, "main")["dataflows"]
    return flow["datasets"]


def test_metrics_have_the_lag_of_each_stream(place: Place) -> None:
    finds(place, place.asked_to_list(), 100)
    place.now += 2
    text = render(
        place.ctx.store, Counters(), {}, FailingUnits(), lags={NAME: lag_of(place)}
    ).decode()
    assert f'headgate_source_lag_rows{{dataset="{NAME}"}} 100.0' in text
    assert f'headgate_source_lag_seconds{{dataset="{NAME}"}} 2.0' in text


def test_more_streams_cost_no_more_statements(place: Place) -> None:
    finds(place, place.asked_to_list(), 100)
    place.computes(**EMPTY)
    finds(place, place.asked_to_list(), 200)
    one = statements(place)
    flow = "dataflow: stream\ncomponents:\n" + "".join(
        f"  m{n}: {OTHER.format(n)}\n" for n in range(20)
    )
    place.apply(flow)
    for _ in range(20):
        finds(place, place.asked_to_list(), 100)
    assert len(overview.status(place.ctx, "main")["dataflows"][0]["datasets"]) == 20
    assert statements(place) <= one


def statements(place: Place) -> int:
    before = place.ctx.store.statements
    overview.status(place.ctx, "main")
    return place.ctx.store.statements - before

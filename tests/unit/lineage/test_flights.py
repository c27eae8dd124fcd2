"""Column lineage of the demo's blueprint, from the last table up to the files. Goldens were read
off the queries.

Does not belong here: partitions and states (test_lineage.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Desired, Source, settings_id
from controlplane.core.lineage import column_links
from controlplane.core.lineage.column_links import LineageLinks
from controlplane.core.lineage.of_node import Lineages
from controlplane.core.model.memos import Memo
from controlplane.core.model.pins import Pin
from controlplane.core.schema.ddl_schemas import parse_ddl
from controlplane.demo import blueprint_folder
from tests.unit.demo.test_blueprint import revision

MOST = 1_000


class Facts:
    """Nothing was run; one source was inferred."""

    def __init__(self, desired: Desired) -> None:
        airlines = desired.nodes["flights.airlines"]
        assert isinstance(airlines, Source)
        self.pin = Pin(settings_id(airlines), parse_ddl("carrier STRING, name STRING"))

    def state(self, _dataset: str) -> None: ...
    def listing(self, _id: bytes) -> None: ...

    def pinned(self, dataset: str) -> Pin | None:
        return self.pin if dataset == "flights.airlines" else None

    def answers(self, _keys: tuple[bytes, ...]) -> Mapping[bytes, Memo]:
        return {}

    def tasks(self, _keys: tuple[bytes, ...]) -> Mapping[bytes, object]:
        return {}


@pytest.fixture(scope="module")
def lineages() -> Lineages:
    desired = compile_revisions(
        [revision(Path(blueprint_folder(), "flights.yaml").read_text())]
    ).require()
    found = Lineages(desired, Facts(desired))  # type: ignore[arg-type]  # no tasks at all
    found.prepare(desired.order)
    return found


def read_columns(found: LineageLinks) -> set[str]:
    """Columns of read components that the columns come of; what decides on rows is left out."""
    ends = {
        "flights.flights",
        "flights.weather",
        "flights.airlines",
        "flights.airports",
        "flights.planes",
    }
    links = [link for link in found.links if link.column is not None and link.of_dataset in ends]
    return {f"{link.of_dataset}.{link.of_column}".removeprefix("flights.") for link in links}


GOLDENS = [
    ("by_carrier", "carrier", {"flights.carrier"}),
    ("by_carrier", "airline", {"airlines.name"}),
    ("by_carrier", "flights", set()),
    ("by_carrier", "late_share", {"flights.arr_delay"}),
    ("delays", "rain", {"weather.precip"}),
    ("delays", "wind_speed", {"weather.wind_speed"}),
    ("delays", "plane_age", {"flights.year", "flights.month", "flights.day", "planes.year"}),
    ("delays", "cancelled", {"flights.dep_time"}),
    ("delays", "caught_up", {"flights.dep_delay", "flights.arr_delay"}),
    ("daily", "in_rain", {"weather.precip"}),
]


@pytest.mark.parametrize(("dataset", "column", "golden"), GOLDENS)
def test_where_a_column_comes_from(
    lineages: Lineages, dataset: str, column: str, golden: set[str]
) -> None:
    assert (
        read_columns(
            column_links.upstream(lineages, f"flights.{dataset}", [column], LineageLinks(MOST))
        )
        == golden
    )


def test_what_depends_on_a_column(lineages: Lineages) -> None:
    readers = list(lineages.desired.order)
    found = column_links.downstream(
        lineages, readers, "flights.weather", ["precip"], LineageLinks(MOST)
    )
    of_sql = {
        name for name, one in ((d, lineages.of(d)) for d in found.datasets) if one.by == "sqlglot"
    }
    links = {(link.dataset, link.column) for link in found.links if link.dataset in of_sql}
    assert {
        ("flights.weather_hours", "rain"),
        ("flights.delays", "rain"),
        ("flights.daily", "in_rain"),
    } <= links
    assert ("flights.delays", "wind_speed") not in links
    assert ("flights.by_carrier", "late_share") not in links


def test_python_that_nobody_analysed_is_said_to_read_everything(lineages: Lineages) -> None:
    python = [lineages.of(d) for d in lineages.desired.order if lineages.of(d).kind == "python"]
    assert python
    assert {one.by for one in python} == {"assumed"}
    assert all(one.over_reported for one in python)


def test_every_column_of_sql_is_told_exactly(lineages: Lineages) -> None:
    for dataset in lineages.desired.order:
        found = lineages.of(dataset)
        assert found.kind != "sql" or not found.over_reported, (dataset, found.over_reported)


def test_what_is_left_out_is_counted(lineages: Lineages) -> None:
    whole = column_links.upstream(lineages, "flights.delays", ["late"], LineageLinks(MOST))
    some = column_links.upstream(lineages, "flights.delays", ["late"], LineageLinks(2))
    assert (len(some.links), some.left_out) == (2, len(whole.links) - 2)

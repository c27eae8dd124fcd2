"""The example `blueprints/clicks` on its server: late orders, a correction, an edit in a branch and
a killed driver, and each table is what a batch computation over the whole topics gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.demo_clicks import Size, Tour
from tests.e2e.conftest import closing
from tests.e2e.workspace import Workspace
from tests.servers.clicks import Clicks
from tests.slices import in_turn

# Takes turns with orders and JDBC: of what all go through, each part has tests of its own.
pytestmark = in_turn(3, 8)


@pytest.fixture(scope="module")
def tour(module_folder: Path) -> Iterator[Tour]:
    with (
        Clicks(module_folder) as clicks,
        closing(Workspace(clicks.folder)) as place,
        place.serving() as service,
        service.client() as api,
    ):
        yield Tour(clicks, place, api, Size(backlog=300, rate=50, seconds=3))


def test_each_step_ends_with_what_a_batch_gives(tour: Tour) -> None:
    """A step that does not raises an error that names the tables."""
    tour.go()


def test_the_merged_edit_is_published(tour: Tour) -> None:
    largest = tour.query("SELECT max(largest) AS largest FROM clicks.per_minute")
    assert largest == tour.query("SELECT max(amount) AS largest FROM clicks.sales")

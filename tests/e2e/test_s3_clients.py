"""Every client of S3 reads the same rows of the flights example through the view, which DuckDB
computes from the raw files: the newest, a generation, a time and a branch. A commit between two
pages of a listing changes nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.e2e.conftest import closing
from tests.e2e.s3_clients import CLIENTS, View, one_page
from tests.e2e.served import Served, second_of_now
from tests.e2e.tables import Truth
from tests.e2e.workspace import add_days, day_name, day_text, example
from tests.flights import DERIVED
from tests.slices import in_turn, sliced

# Answers of the view are asked of unit/s3, and Spark's reader of a lake on S3 of spark/test_on_s3.
pytestmark = [pytest.mark.slow, *in_turn(0, 4)]

DATASETS = ("delays", "daily")
LATE_MINUTES = 45  # in the branch
LARGE = ("Trino, Delta",)  # 800 MB to fetch
# One session reads for all of them
SPARKS = tuple(name for name in CLIENTS if name.startswith("Spark, "))
FIRST, *OTHERS = (name for name in CLIENTS if name not in (*LARGE, *SPARKS))
# They read the same rows at the same addresses: what the view answers to requests is tested in
# tests/unit/s3. Without the story of a notebook, which takes turns with this file, `to_spark` alone
# hands rows to a user's Spark.
MARKED = [
    FIRST,
    *SPARKS,
    *sliced(OTHERS, 3),
    *(pytest.param(name, marks=pytest.mark.soak) for name in LARGE),
]


@dataclass(frozen=True)
class Told:
    """A home, and what its view has to say at each address."""

    view: View
    truths: dict[str, Truth]
    pages: tuple[list[str], list[str]]  # of a listing, before and after a commit

    def assert_all(self, client: str, scratch: Path) -> None:
        found = CLIENTS[client](self.view, scratch)
        assert set(found) == set(self.view.addresses)
        for address, table in found.items():
            name = address.rpartition("/")[2].partition("@")[0]
            self.truths[address].assert_equal(name, table)


@pytest.fixture(scope="module")
def told(module_folder: Path, monthly: Path) -> Iterator[Told]:
    """Each day is a partition. Another one comes twice, one of before is corrected, and a branch
    has an edit."""
    with closing(example(module_folder / "flights")) as place:
        add_days(place, monthly, 1, 2, 3)
        data = place.folder / "data"
        with place.serving() as service, service.client() as api:
            place.call("apply", "flights.yaml", "--wait", "--home", place.home)
            served = Served(place, service, api, "flights", reads=5)
            key = api.create_s3_key("readers", ["*"])
            view = View(
                service.url, str(key["access_key"]), str(key["secret_key"]), (), service.token
            )

            truths = _at(f"main@{second_of_now()}/flights/{{}}", Truth(data))
            keys, token = one_page(view, "main/flights/delays/2013")
            add_days(place, monthly, 4)
            (data / "flights" / day_name(2)).write_text(
                "".join(day_text(monthly, 2).splitlines(True)[:-1])
            )
            served.refresh()
            more, _ = one_page(view, "main/flights/delays/2013", token)
            truths |= _at("main/flights/{}@2", Truth(data))

            add_days(place, monthly, 5)
            served.refresh()
            truths |= _at("main/flights/{}", Truth(data))
            api.create_branch("dev")
            place.edit("flights.yaml", ("late_minutes: 15", f"late_minutes: {LATE_MINUTES}"))
            place.call("apply", "flights.yaml", "--branch", "dev", "--wait", "--home", place.home)
            truths |= _at("dev/flights/{}", _edited(data))
            yield Told(replace(view, addresses=tuple(truths)), truths, (keys, more))


def _at(address: str, truth: Truth) -> dict[str, Truth]:
    return {address.format(name): truth for name in DATASETS}


def _edited(data: Path) -> Truth:
    """Later is late."""
    changed = DERIVED["delays"].replace("> 14", f"> {LATE_MINUTES - 1}")
    assert changed != DERIVED["delays"]
    return Truth(data, {"delays": changed})


@pytest.mark.parametrize("client", MARKED)
def test_rows_are_equal_at_every_address(told: Told, client: str, tmp_path: Path) -> None:
    told.assert_all(client, tmp_path)


def test_a_commit_between_two_pages_changes_nothing_of_the_listing(told: Told) -> None:
    """A day was added before the second page, and one was corrected that the first page had
    shown."""
    first, second = told.pages
    days = [name.rpartition("/")[2].partition("!")[0] for name in first + second]
    assert days == [f"2013-01-0{day}.csv" for day in (1, 2, 3)]
    of_then, token = one_page(told.view, "main/flights/delays@1/2013")
    assert [*of_then, *one_page(told.view, "main/flights/delays@1/2013", token)[0]] == [
        name.replace("/delays/", "/delays@1/") for name in first + second
    ]

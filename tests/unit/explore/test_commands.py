"""Commands and client over a served dataflow with two generations: what they ask for, and what they
show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.client import ApiError
from tests.unit.time_travel.world import DATASETS, Place, served


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with served(tmp_path_factory.mktemp("home")) as place:
        yield place


@pytest.fixture
def shown(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_URL", place.url)
    monkeypatch.setenv("HEADGATE_TOKEN", place.token)

    def ask(*arguments: str) -> str:
        code = run(arguments, Bootstrap())
        out = capsys.readouterr()
        assert code == 0, out.err
        return out.out

    return ask


def test_graph(shown: Any) -> None:
    table = shown("graph", "shop")
    assert table.splitlines()[-1].split()[-2:] == ["shop.orders", "(each)"]
    answer = json.loads(
        shown("graph", "--around", "shop.orders", "--down", "0", "--output", "json")
    )
    assert [node["name"] for node in answer["nodes"]] == ["shop.orders"]
    assert "shop" in shown("graph", "--collapse", "flow")


def test_waves(shown: Any) -> None:
    lines = shown("waves").splitlines()
    assert [line.split()[0] for line in lines] == ["wave", "shop.orders:2", "shop.rev1"]
    assert "more: --before shop.orders:2" in shown("waves", "shop", "--limit", "1")
    assert "1 added" in shown("waves", "shop.orders:2")


def test_ranges_and_one_partition(shown: Any) -> None:
    lines = shown("ranges", "shop.orders", "--against", "1").splitlines()
    assert lines[0] == "generation 2 against 1"
    assert [line.split()[-1] for line in lines[2:4]] == ["1", "yes"]
    inside = json.loads(
        shown("ranges", "shop.orders@1", "--from", "", "--to", "a.csv", "--output", "json")
    )
    assert [one["last"] for one in inside["items"]] == ["a.csv"]
    text = shown("partition", "shop.doubled/b.csv")
    assert "made of shop.orders, each: b.csv" in text
    assert "since generation 2" in text


def test_partitions_and_history(shown: Any) -> None:
    assert shown("partitions", "shop.orders", "--changed-in", "2").split()[-1] == "added"
    assert "b.csv" not in shown("partitions", "shop.orders", "--prefix", "a")
    assert len(shown("partitions", "shop.orders", "--state", "failed").splitlines()) == 2
    assert "+1" in shown("history", "shop.orders")


def test_search(shown: Any) -> None:
    assert "shop.doubled" in shown("search", "doub")
    assert "shop.orders" in shown("search", "b.csv")
    assert "nothing was found" in shown("search", "owner:nobody")


def test_what_excludes_each_other_is_refused(place: Place) -> None:
    with place.http() as http:
        for query in (
            "state=failed&changed_in=1",
            "state=to_do&generation=1",
            "changed_in=0",
            "state=other",
        ):
            answer = http.get(f"{DATASETS}/shop.orders/partitions?{query}")
            assert answer.status_code == 422, (query, answer.text)
        assert (
            http.get(f"{DATASETS}/shop.orders/ranges?against=soon").json()["type"]
            == "urn:headgate:bad-address"
        )
        assert http.get(f"{DATASETS}/shop.orders/partition").status_code == 422
        for query in (
            "search?q=a&branch=none",
            "branches/main/graph?dataflow=%00",
            "branches/main/waves/%00.rev1",
        ):
            assert http.get(f"/v1/{query}").status_code == 404, query


def test_a_key_that_is_an_address_of_nothing(place: Place) -> None:
    with place.client() as client, pytest.raises(ApiError) as refused:
        client.partition("shop.orders", "../../x")
    assert (refused.value.status, refused.value.code) == (404, "not-found")

"""Every read takes a generation or a time, over HTTP, from Python and on the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.client import ApiError
from controlplane.core.errors import BadAddress
from controlplane.core.model.retention import Expired
from tests.unit.time_travel.world import DATASETS, Place, doubled, served

ORDERS = "shop.orders"
ONE, BOTH = [[1, 10]], [[1, 10], [2, 20]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with served(tmp_path) as place:
        yield place


def committed(place: Place, name: str = ORDERS) -> dict[int, str]:
    """When each generation was committed, as answers tell it."""
    with place.client() as client:
        return {item["generation"]: item["at"] for item in client.history(name)["items"]}


def drop_oldest(place: Place, name: str = ORDERS, below: int = 2) -> None:
    with place.world.store.begin() as tx:
        assert tx.upkeep.drop_states([Expired("main", name, 99, below, 1e12)])


# --- records ---------------------------------------------------------------------------------------


def test_records_of_a_generation_and_of_a_time(place: Place) -> None:
    at = committed(place)
    assert place.rows(ORDERS) == place.rows(f"{ORDERS}@2") == BOTH
    assert place.rows(f"{ORDERS}@1") == place.rows(ORDERS, generation=1) == ONE
    assert place.rows(f"{ORDERS}@{at[1]}") == place.rows(ORDERS, at=at[1]) == ONE
    before = datetime.fromisoformat(at[2]) - timedelta(milliseconds=1)
    assert place.rows(ORDERS, at=before) == ONE
    assert place.rows(f"{ORDERS}@{at[2]}") == place.rows(f"{ORDERS}@2100-01-01T00:00Z") == BOTH


def test_which_generation_a_time_is_stands_in_the_answer(place: Place) -> None:
    with place.http() as http:
        found = http.get(f"{DATASETS}/{ORDERS}/records", params={"at": committed(place)[1]})
    assert (found.headers["x-generation"], found.headers["x-rows"]) == ("1", "1")


def test_a_branch_has_its_own_past_on_top_of_mains(place: Place) -> None:
    world = place.world
    world.create()
    world.apply_in("dev", doubled(3))
    world.ran()
    name = "shop.doubled"
    assert (
        place.rows(name, branch="dev")
        == place.rows(f"{name}@3", branch="dev")
        == [[1, 30], [2, 60]]
    )
    assert place.rows(f"{name}@1", branch="dev") == [[1, 20]]
    assert place.rows(name, branch="dev", at=committed(place, name)[2]) == [[1, 20], [2, 40]]
    assert place.rows(f"{ORDERS}@1", branch="dev") == ONE
    with pytest.raises(ApiError, match="no generation 3; its newest is 2"):
        place.rows(f"{name}@3")


# --- what is not there -----------------------------------------------------------------------------


def test_a_generation_that_never_was_is_not_found(place: Place) -> None:
    with place.http() as http:
        asked = {"generation": 7}, {"at": "1970-01-01T00:00Z"}
        never, early = (http.get(f"{DATASETS}/{ORDERS}/records", params=query) for query in asked)
        unknown = http.get(f"{DATASETS}/shop.nothing/records", params={"generation": 1})
    assert [one.status_code for one in (never, early, unknown)] == [404, 404, 404]
    assert "no generation 7; its newest is 2" in never.json()["detail"]
    assert f"its first generation was committed at {committed(place)[1]}" in early.json()["detail"]


@pytest.mark.parametrize("part", ["records", "partitions", "history", "checks", "why"])
def test_what_was_collected_is_gone_with_the_oldest_that_is_kept(place: Place, part: str) -> None:
    at = committed(place)
    drop_oldest(place)
    with place.http() as http:
        for query in ({"generation": 1}, {"at": at[1]}):
            gone = http.get(f"{DATASETS}/{ORDERS}/{part}", params=query)
            assert (gone.status_code, gone.json()["type"]) == (410, "urn:headgate:generation-gone")
            assert f"the oldest that is kept is generation 2, of {at[2]}" in gone.json()["detail"]
        assert http.get(f"{DATASETS}/{ORDERS}/{part}", params={"generation": 2}).status_code == 200


def test_of_a_branch_a_time_in_a_gap_is_gone(place: Place) -> None:
    """Between what main had at the fork and the oldest own state that is kept."""
    world, name = place.world, "shop.doubled"
    world.create()
    for factor in (3, 4):
        world.apply_in("dev", doubled(factor))
        world.ran()
        world.now += 1_000.0
    with place.client() as client:
        at = {
            item["generation"]: item["at"] for item in client.history(name, branch="dev")["items"]
        }
    with world.store.begin() as tx:
        assert tx.upkeep.drop_states([Expired("dev", name, 99, 4, 1e12)])
    assert place.rows(name, branch="dev", at=at[4]) == [[1, 40], [2, 80]]
    assert place.rows(name, branch="dev", generation=2) == [[1, 20], [2, 40]]
    for meant in ({"at": at[3]}, {"generation": 3}):
        with pytest.raises(ApiError) as gone:
            place.rows(name, branch="dev", **meant)
        assert gone.value.code == "generation-gone"


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"at": "yesterday"}, "shop.totals@2026-11-24T07:00Z"),
        ({"at": "2026-11-24T07:00"}, "add Z"),
        ({"generation": "0"}, "numbered from 1"),
        ({"generation": "1", "at": "2026-11-24T07:00Z"}, "send one of them"),
    ],
)
def test_what_is_no_address_is_refused_with_the_way_to_write_it(
    place: Place, query: dict[str, str], told: str
) -> None:
    with place.http() as http:
        for part in ("records", "partitions", "history", "checks", "why"):
            refused = http.get(f"{DATASETS}/{ORDERS}/{part}", params=query)
            assert refused.status_code == 422
            assert told in refused.json()["detail"]


# --- entity tags -----------------------------------------------------------------------------------


def test_unchanged_records_are_not_sent_again(place: Place) -> None:
    path = f"{DATASETS}/{ORDERS}/records"
    with place.http() as http:
        tag = http.get(path).headers["etag"]
        for given in (tag, f'"other", {tag}', tag.removeprefix("W/"), "*"):
            same = http.get(path, headers={"If-None-Match": given})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        assert http.head(path, headers={"If-None-Match": tag}).status_code == 304
        assert http.get(path, headers={"If-None-Match": '"other"'}).json() == BOTH
        assert http.head(path).headers["etag"] == tag


def test_a_tag_is_of_the_content_and_of_how_it_is_asked_for(place: Place) -> None:
    with place.http() as http:

        def tag(name: str = ORDERS, **query: Any) -> str:
            return (
                http.head(f"{DATASETS}/{name}/records", params=query)
                .raise_for_status()
                .headers["etag"]
            )

        assert tag() == tag(generation=2) != tag(generation=1)
        tags = {
            tag(),
            tag(format="csv"),
            tag(limit=1),
            tag(partition="a.csv"),
            tag(partition="b.csv"),
        }
        assert len(tags) == 5
        assert tag(partition="a.csv", generation=1) == tag(partition="a.csv")
        first = tag("shop.doubled")
        for factor in (5, 2):
            place.world.apply(doubled(factor))
            place.world.settle()
        assert tag("shop.doubled", generation=3) != first
        assert tag("shop.doubled", generation=4) == first


# --- other reads -----------------------------------------------------------------------------------


def test_partitions_of_a_generation(place: Place) -> None:
    with place.client() as client:
        old, new = client.partitions(f"{ORDERS}@1"), client.partitions(ORDERS, limit=1)
        assert [(p["generation"], [i["partition"] for i in p["items"]]) for p in (old, new)] == [
            (1, ["a.csv"]),
            (2, ["a.csv"]),
        ]
        place.world.put("aa.csv", (3, 30))
        place.world.settle()
        rest = client.partitions(ORDERS, generation=new["generation"], after=new["next"])
    assert [item["partition"] for item in rest["items"]] == ["b.csv"]


def test_the_history_up_to_an_address(place: Place) -> None:
    at = committed(place)
    with place.client() as client:
        for name in (f"{ORDERS}@1", f"{ORDERS}@{at[1]}"):
            assert [item["generation"] for item in client.history(name)["items"]] == [1]


def test_checks_of_a_time(place: Place) -> None:
    at = committed(place)
    with place.client() as client:
        assert [client.checks(ORDERS, at=at[n])["generation"] for n in (1, 2)] == [1, 2]


def test_why_a_generation_came(place: Place) -> None:
    place.world.apply(doubled(3))
    place.world.settle()
    with place.client() as client:
        first, second, third = (client.why(f"shop.doubled@{n}") for n in (1, 2, 3))
        assert [one["cause"] for one in (first, second, third)] == ["missing", "input", "logic"]
        assert [one["at"] for one in (first, second, third)] == list(
            reversed(committed(place, "shop.doubled").values())
        )
        assert "b.csv" in second["sentence"]
        assert second["tree"] is not None
        assert [above["dataset"] for above in second["tree"]["inputs"]] == [ORDERS]
        assert first["logic"] == second["logic"] != third["logic"]
        assert (first["held_up"], first["stopped"], first["sources"]) == (None, [], [])
        assert client.why("shop.doubled@2", "b.csv")["sentence"] == second["sentence"]
        with pytest.raises(ApiError, match="no partition"):
            client.why("shop.doubled@1", "b.csv")


def test_why_of_a_generation_whose_past_is_gone(place: Place) -> None:
    drop_oldest(place)
    with place.client() as client:
        found = client.why(f"{ORDERS}@2")
    assert (found["cause"], found["tree"]) == ("input", None)
    assert "not kept any more" in found["sentence"]


# --- the command line ------------------------------------------------------------------------------


@pytest.fixture
def line(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("HEADGATE_URL", place.url)
    monkeypatch.setenv("HEADGATE_TOKEN", place.token)
    return place


def headgate(*arguments: str) -> int:
    return run(arguments, Bootstrap())


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize(
    ("command", "told", "untold"),
    [
        (("records", "shop.orders@1"), "[[1, 10]]", "20"),
        (("records", "shop.orders@2100-01-01T00:00Z"), "[[1, 10], [2, 20]]", "30"),
        (("partitions", "shop.orders@1"), "a.csv", "b.csv"),
        (("history", "shop.doubled@1"), "missing", "input"),
        (
            ("why", "shop.doubled@2/b.csv"),
            "shop.doubled/b.csv, generation 2, was committed at 1970-01-12T",
            "a.csv",
        ),
        (("generations", "shop"), "shop.doubled@2", "--consistent"),
        (("generations", "shop@1970-01-01T00:00Z"), "no data then", "shop.doubled@"),
    ],
)
def test_commands_take_addresses(
    command: tuple[str, ...], told: str, untold: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headgate(*command) == 0
    out = capsys.readouterr().out
    assert told in out
    assert untold not in out


@pytest.mark.usefixtures("line")
def test_commands_tell_how_an_address_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("preview", "records", "history", "partitions", "checks", "why"):
        assert headgate(command, "shop.orders@today") == 1
        err = capsys.readouterr().err
        assert "bad-address" in err
        assert "shop.totals@12" in err
        assert "shop.totals@2026-11-24T07:00Z" in err
    assert headgate("preview", "shop.orders@1", "--generation", "1") == 1
    assert "said twice" in capsys.readouterr().err


def test_a_preview_without_rows_has_the_columns_of_its_generation(
    line: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    line.world.apply("  none: {transform: {sql: 'SELECT k AS old FROM orders WHERE k > 9'}}\n")
    line.world.settle()
    line.world.apply("  none: {transform: {sql: 'SELECT k AS young FROM orders WHERE k > 9'}}\n")
    line.world.settle()
    assert headgate("preview", "shop.none@1") == 0
    assert headgate("preview", "shop.none") == 0
    out = capsys.readouterr().out
    assert out.index("old") < out.index("young")


def test_partitions_are_paged(line: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert headgate("partitions", ORDERS, "-n", "1") == 0
    assert "more: --after 'a.csv'" in capsys.readouterr().out
    assert headgate("partitions", ORDERS, "--after", "a.csv", "-o", "json") == 0
    assert [item["partition"] for item in json.loads(capsys.readouterr().out)["items"]] == ["b.csv"]


def test_an_address_is_refused_before_anything_is_sent() -> None:
    from controlplane.client import Headgate

    with Headgate("http://127.0.0.1:1", "hg_x") as client, pytest.raises(BadAddress):
        client.partitions("shop.orders@x")

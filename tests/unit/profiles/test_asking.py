"""Profiles by command, call and page: what is shown, to whom, and what the audit has of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.client import Headgate
from controlplane.core import profile_figures
from controlplane.core.model.answers.profiles import (
    ProfileAnswer,
    ProfileHistoryAnswer,
    ProfilePoint,
)
from controlplane.core.rights import TokenScope
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.inspect import audit
from controlplane.ui import page_rendering, profile_pages
from controlplane.ui.profile_pages import ProfilePage
from dataplane.contract.profiles import WHOLE, Profile
from tests.unit.time_travel.world import DATASETS, Place, served
from tests.unit.ui.world import HOSTILE, Pages, pages


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with served(tmp_path_factory.mktemp("home")) as place:
        yield place


@pytest.fixture(scope="module")
def page_world() -> Iterator[Pages]:
    with pages() as found:
        yield found


@pytest.fixture
def asked(place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("HEADGATE_URL", place.url)
    monkeypatch.setenv("HEADGATE_TOKEN", place.token)

    def ask(*arguments: str) -> tuple[int, str]:
        code = run(("profile", *arguments), Bootstrap())
        out = capsys.readouterr()
        return code, out.out + out.err

    return ask


def test_the_command_shows_a_dataset_a_partition_and_a_column(asked: Any) -> None:
    code, text = asked("shop.orders")
    lines = text.splitlines()
    assert code == 0
    assert lines[0].split()[:6] == ["column", "type", "NULL", "distinct", "least", "greatest"]
    assert lines[2].split()[:6] == ["v", "long", "0.0%", "2", "10", "20"]
    assert "generation 2, 2 rows in 2 partitions; all of them were looked at" in text
    assert "generation 1, 1 rows" in asked("shop.orders@1")[1]
    _, text = asked("shop.orders/b.csv", "--column", "v")
    assert "20     100.0%     1" in text
    assert json.loads(asked("shop.orders", "--output", "json")[1])["sample"] == {"rows": 2, "of": 2}


def test_the_command_shows_the_past_of_columns(asked: Any) -> None:
    code, text = asked("shop.orders", "--history", "--column", "v")
    assert (code, text.splitlines()[1].split()[:4]) == (0, ["v", "1", "to", "2"])
    assert "no column moved" in text
    assert asked("shop.orders@1", "--history")[0] != 0
    assert "no column 'w'" in asked("shop.orders", "--column", "w")[1]
    assert "no partition 'x'" in asked("shop.orders/x")[1]


def test_values_take_the_permission_of_rows_and_are_noted(place: Place) -> None:
    before = len(audit.reads(place.world.ctx, None, 100)["items"])
    viewer, _ = tokens.create(place.world.ctx, "viewer", ("view",))
    with Headgate(place.url, viewer) as client:
        found, over = client.profile("shop.doubled"), client.profile_history("shop.doubled")
    assert found["values_need"] == "data"
    assert [(c["nulls"], c["distinct"], "values" in c) for c in found["columns"]] == [
        (0, 2, False)
    ] * 2
    assert {point["mean"] for c in over["columns"] for point in c["points"]} == {None}
    assert len(audit.reads(place.world.ctx, None, 100)["items"]) == before
    reader, _ = tokens.create(place.world.ctx, "reader", ("view", "data"))
    with Headgate(place.url, reader) as client:
        found = client.profile("shop.doubled@2", partition="a.csv", column="v")
    assert [c["values"]["max"] for c in found["columns"]] == [20]
    [noted, *_] = audit.reads(place.world.ctx, None, 100)["items"]
    assert (noted["how"], noted["dataset"]) == ("profile", "shop.doubled")
    assert noted["what"] == {"partition": "a.csv", "column": "v"}


def test_a_narrowed_token_sees_its_own_and_no_other(place: Place) -> None:
    token, _ = tokens.create(
        place.world.ctx, "narrow", ("view", "data"), within=TokenScope(datasets=("shop.doubled",))
    )
    with Headgate(place.url, token) as client:
        assert client.profile("shop.doubled")["columns"][0]["values"]["min"] == 1
    with place.http() as http:
        answer = http.get(
            f"{DATASETS}/shop.orders/profile", headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 404
        assert http.get(f"{DATASETS}/shop.orders/profile?generation=9").status_code == 404
        assert (
            http.get(f"{DATASETS}/shop.orders/profile?at=soon").json()["type"]
            == "urn:headgate:bad-address"
        )


def test_a_page_has_a_part_for_the_datasets_page_and_hides_values_without_the_right(
    page_world: Pages,
) -> None:
    with page_world.http() as http:
        part = http.get(
            "/datasets/shop.orders/profile?part=profile", headers={"Accept": "text/html"}
        ).text
        assert part.lstrip().startswith("<section")
        assert "<rect" in part
        assert (
            'hx-get="/datasets/shop.orders/profile?part=profile"'
            in http.get("/datasets/shop.orders?tab=columns").text
        )
    viewer, _ = tokens.create(Context(page_world.services.store), "viewer", ("view",))
    with page_world.http(signed_in=False) as http:
        headers = {"Authorization": f"Bearer {viewer}", "Accept": "text/html"}
        text = http.get("/datasets/shop.orders/profile", headers=headers).text
        assert "needs <code>data</code>" in text
        assert "<rect" not in text


@pytest.mark.parametrize("cell", HOSTILE)
def test_what_rows_and_columns_say_is_escaped(cell: str) -> None:
    body: Profile = {
        "rows": 1,
        "columns": {
            cell: {
                "shape": "text",
                "nulls": 0,
                "nulls_of": 1,
                "bounds": [cell, cell],
                "bounds_of": 1,
            }
        },
        "sample": {"of": 1, "below": WHOLE, "marks": [1], "values": {cell: [cell]}},
    }
    one = profile_figures.column(
        body, {"name": cell, "type": "string", "nullable": True, "metadata": {}}, with_values=True
    )
    point: ProfilePoint = {
        "generation": 1, "at": "", "rows": 1, "null_share": 0.0, "distinct": 1, "mean": None, "moved": [cell],
    }  # fmt: skip
    later: ProfilePoint = {**point, "generation": 2}
    points = [point, later]
    found: ProfileAnswer = {
        "dataset": "shop.x", "generation": 2, "partition": None, "partitions": 1, "rows": 1, "unprofiled_rows": 0,
        "is_partial": False, "sample": {"rows": 1, "of": 1}, "columns": [one], "values_need": None,
    }  # fmt: skip
    history: ProfileHistoryAnswer = {
        "dataset": "shop.x", "is_partial": False, "columns": [{"name": cell, "points": points}],
    }  # fmt: skip
    page: ProfilePage = {"dataset": "shop.x", "profile": found, "history": history}
    template = page_rendering.environment().get_template("profile.html")
    values = {**profile_pages.drawn(page), "page": page}
    text = "".join(template.blocks["part_profile"](template.new_context(values)))
    plain = escape(cell).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    assert text.count(plain) >= 4
    assert plain == cell or cell not in text

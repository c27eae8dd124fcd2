"""The commands over a service, and the SDK under them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from tests.unit.records.world import ORDERS, RecordWorld, Served, served
from tests.unit.sharing.world import Sharing, names, partitions, rows


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    world = RecordWorld(tmp_path)
    world.commit(partitions([1], [2]))
    with served(world) as place:
        monkeypatch.setenv("HEADGATE_URL", place.url)
        monkeypatch.setenv("HEADGATE_TOKEN", place.token)
        yield place


def headgate(*arguments: str) -> int:
    return run(arguments, Bootstrap())


def test_a_dataset_is_shared_by_four_commands(
    place: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    assert headgate("share", "create", "sales") == 0
    assert headgate("share", "create", "more") == 0
    assert headgate("share", "add", "sales", ORDERS, "--as", "shop.dear", "--history") == 0
    assert "shop.dear" in capfd.readouterr().out
    assert headgate("recipient", "create", "bob", "--shares", "sales,more", "--expires", "12h") == 0
    made = capfd.readouterr()
    profile = json.loads(made.out)
    assert sorted(profile) == [
        "bearerToken",
        "endpoint",
        "expirationTime",
        "shareCredentialsVersion",
    ]
    assert profile["expirationTime"] == "2025-11-26T00:00:00.000Z"
    assert (
        made.err
        == "bob reads more, sales until 2025-11-26 00:00:00Z; the profile is shown only now\n"
    )
    shared = Sharing(place, profile["bearerToken"], profile["endpoint"])
    assert names(shared.get("/shares")) == ["more", "sales"]
    assert shared.query("/shares/sales/schemas/shop/tables/dear") == rows(1, 2)


def test_shares_and_recipients_are_shown_and_ended(capfd: pytest.CaptureFixture[str]) -> None:
    assert headgate("share", "create", "sales") == 0
    assert headgate("share", "add", "sales", ORDERS) == 0
    capfd.readouterr()
    assert headgate("recipient", "create", "bob", "--shares", "sales", "-o", "json") == 0
    made = json.loads(capfd.readouterr().out)
    assert made["profile"]["shareCredentialsVersion"] == 1
    assert headgate("share", "show", "sales", "-o", "json") == 0
    share = json.loads(capfd.readouterr().out)
    assert (share["recipients"], share["tables"][0]["history"]) == (["bob"], False)
    assert headgate("share", "list") == 0
    assert headgate("recipient", "list") == 0
    listed = capfd.readouterr().out
    assert "live" in listed
    assert made["profile"]["bearerToken"] not in listed
    assert headgate("recipient", "revoke", "bob") == 0
    assert headgate("share", "remove", "sales", "shop.orders") == 0
    assert headgate("share", "delete", "sales") == 0
    capfd.readouterr()
    assert headgate("share", "show", "sales") == 1
    assert headgate("share", "add", "sales", ORDERS, "--as", "Dear") == 1
    assert headgate("recipient", "create", "bob", "--shares", "sales", "--expires", "soon") == 64

"""The commands over a service, and the SDK under them."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pyarrow.parquet as pq
import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.operations.desired import blueprints
from tests.unit.records.conftest import order
from tests.unit.records.world import ORDERS, Served

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def line(place: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    monkeypatch.setenv("HEADGATE_URL", place.url)
    monkeypatch.setenv("HEADGATE_TOKEN", place.token)
    return place


def headgate(*arguments: str) -> int:
    return run(arguments, Bootstrap())


def test_records_go_to_standard_output_or_to_a_file(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    asked = (
        "records",
        ORDERS,
        "--columns",
        "name,`k`",
        "--where",
        "k > 1",
        "--offset",
        "1",
        "-n",
        "2",
    )
    assert headgate(*asked, "--format", "ndjson") == 0
    rows = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert rows == [{"name": None, "k": 3}, {"name": "ü", "k": 4}]
    file = tmp_path / "orders.parquet"
    assert (
        headgate(
            *asked, "--format", "parquet", "--compression", "snappy", "--output-file", str(file)
        )
        == 0
    )
    assert capfdbinary.readouterr().out == b""
    assert pq.read_table(file).to_pylist() == rows


def test_what_fails_leaves_the_file_before(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("before")
    assert headgate("records", ORDERS, "--where", "k = 'x'", "--output-file", str(file)) == 1
    assert "where:1:5:" in capfd.readouterr().err
    assert (file.read_text(), [path.name for path in tmp_path.glob("*orders*")]) == (
        "before",
        ["orders.csv"],
    )


@pytest.mark.parametrize("command", [("records",), ("preview",), ("why",), ("partitions",)])
def test_an_unknown_dataset_is_unknown_with_the_nearest_name(
    command: tuple[str, ...], place: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "dataflow: shop\ncomponents:\n  ordering: {transform: {sql: SELECT 1}}"
    blueprints.apply(place.world.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", text, {})])
    assert headgate(*command, "shop.odering") == 1
    assert (
        "there is no dataset shop.odering in branch main; did you mean 'shop.ordering'?"
        in capfd.readouterr().err
    )
    assert headgate(*command, "nothing.alike") == 1
    assert "there is no dataset nothing.alike in branch main\n" in capfd.readouterr().err


def test_changes_say_from_where_to_go_on(place: Served, capfd: pytest.CaptureFixture[str]) -> None:
    place.world.commit({"b.csv": [order(3, None), order(4, "ü")], "d.csv": [order(6)]})
    assert headgate("changes", ORDERS, "--since", "1", "--format", "csv") == 0
    told = capfd.readouterr()
    assert [line.split(",")[0] for line in told.out.splitlines()[1:]] == ["1", "2", "5", "6"]
    assert told.err == "up to generation 2; go on with --since 2\n"
    assert headgate("changes", ORDERS, "--since", "9") == 1


def test_links_are_made_listed_and_revoked(capfd: pytest.CaptureFixture[str]) -> None:
    made = (
        "link",
        "create",
        f"{ORDERS}@1",
        "--columns",
        "k",
        "--where",
        "k > 3",
        "--expires",
        "12h",
        "-o",
        "json",
    )
    assert headgate(*made) == 0
    link = json.loads(capfd.readouterr().out)
    assert httpx2.get(link["url"], trust_env=False).text == '"k"\n4\n5\n'
    assert link["expires"] - link["at"] == 12 * 3600
    assert headgate("link", "list") == 0
    listed = capfd.readouterr().out
    assert "shop.orders@1, columns k, where k > 3" in " ".join(listed.split())
    assert headgate("link", "revoke", link["id"]) == 0
    assert httpx2.get(link["url"], trust_env=False).status_code == 410
    assert headgate("link", "create", ORDERS, "--expires", "7 days") == 64
    capfd.readouterr()
    assert headgate("link", "create", ORDERS) == 0
    assert capfd.readouterr().out.splitlines()[0].startswith("http://127.0.0.1:")

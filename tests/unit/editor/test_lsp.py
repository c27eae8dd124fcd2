"""The language server as an editor runs it: a process, spoken to over its pipes."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from tests.unit.editor.client import MARK, Client, lsp
from tests.unit.notebook.conftest import place as place  # a fixture
from tests.unit.records.world import Served

pytestmark = pytest.mark.unit
MOST_HOVERS = 300  # a service that has not answered by then never will
SHOP = """\
dataflow: shop
components:
  orders:
    description: Orders <b>of</b> all shops
    read: {connector: files, path: /data/*.csv, format: csv, schema: "shop INT, amount INT"}
  dear:
    transform:
      sql: |
        SELECT o.shop, o.amount
        FROM orders o
        WHERE o.amount > :least
      params: {least: 5}
  by_shop:
    transform:
      sql: SELECT shop, sum(amount) AS total FROM dear GROUP BY shop
  to_files:
    write: {connector: files, from: by_shop, path: /out/by_shop, format: csv}
"""
OTHER = """\
dataflow: report
components:
  totals:
    transform: {sql: SELECT * FROM shop.by_shop}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blueprints")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Client]:
    with lsp(folder) as client:
        yield client


def marked(text: str, before: str, behind: str = "") -> str:
    """The text with the cursor behind a part of it."""
    assert text.count(before) == 1, before
    return text.replace(before, before + behind + MARK)


def ranges(problems: list[dict[str, Any]]) -> list[tuple[str, int, int, int]]:
    """Code, line, and characters from and to."""
    found = [(p["code"], p["range"]) for p in problems]
    return [
        (code, r["start"]["line"], r["start"]["character"], r["end"]["character"])
        for code, r in found
    ]


def hovered_with(client: Client, path: Path, text: str, word: str) -> str:
    """The text of the first hover with the word. A hover waits a second for the service, and a
    later one has the answer."""
    shown = ""
    for _ in range(MOST_HOVERS):
        shown = str(client.at("hover", path, text)["contents"]["value"])
        if word in shown:
            break
    assert word in shown
    return shown


def labels(items: list[dict[str, Any]]) -> list[str]:
    return [item["label"] for item in items]


def test_problems_are_those_of_validate(
    client: Client, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = SHOP.replace("FROM orders o", "FROM ordes o /* 😀 */").replace(
        "format: csv}", "formt: csv}"
    )
    path = folder / "wrong.yaml"
    path.write_text(wrong)
    found = client.open(path, wrong)
    assert ranges(found) == [
        ("missing-input", 9, 13, 18),
        *(
            (code, 16, at, end)
            for code, at, end in (("missing-key", 11, 12), ("unknown-key", 65, 70))
        ),
    ]
    assert "did you mean" in found[0]["message"]
    assert run(["validate", str(path)], Bootstrap()) == 1
    lines = [line for line in capfd.readouterr().out.splitlines() if not line.startswith("  ")]
    told = [line.split(": ")[0] for line in lines]
    assert told == [
        f"{path}:{p['range']['start']['line'] + 1}:{p['range']['start']['character'] + 1}"
        for p in found
    ]
    assert client.change(path, SHOP, 2) == []


def test_places_are_in_units_of_the_client(client: Client, folder: Path) -> None:
    """A character beyond the first plane is two of them in UTF-16, which clients count by."""
    path = folder / "wide.yaml"
    text = 'dataflow: wide\ncomponents:\n  a: {description: "😀", raed: {}}\n'
    (found,) = [p for p in client.open(path, text) if p["code"] == "unknown-key"]
    assert found["range"]["start"]["character"] == len("  a: {description: '😀', ") + 1


def test_what_is_no_blueprint_is_left_alone(client: Client, folder: Path) -> None:
    assert client.open(folder / "compose.yaml", "services: {web: {image: x}}\n") == []


def test_a_hover_tells_modes_with_reasons_and_columns(client: Client, folder: Path) -> None:
    path = folder / "hover.yaml"
    assert client.open(path, SHOP) == []
    shown = client.at("hover", path, marked(SHOP, "FROM ord"))["contents"]["value"]
    assert "**shop.orders**: read, files" in shown
    assert "dear reads it `each`: " in shown
    assert "shop INT\namount INT" in shown
    assert "\\<b\\>" in shown
    own = client.at("hover", path, marked(SHOP, "  by_sh").replace("sum(", "sum("))["contents"][
        "value"
    ]
    assert "**shop.by_shop**: transform in SQL" in own
    assert "- reads `dear` `all`: " in own
    assert "shop\ntotal" in own
    key = client.at("hover", path, marked(SHOP, "par"))["contents"]["value"]
    assert key.startswith("**params**: Constants")
    assert client.at("hover", path, marked(SHOP, "GROUP BY s")) is None


def test_definitions(client: Client, folder: Path) -> None:
    own = folder / "definitions"
    own.mkdir()
    path, other = own / "shop.yaml", own / "report.yaml"
    path.write_text(SHOP)
    client.open(path, SHOP)

    def line_of(text: str, at: Path) -> tuple[str, int]:
        found = client.at("definition", at, text)
        return found["uri"], found["range"]["start"]["line"]

    assert line_of(marked(SHOP, "FROM ord"), path) == (path.as_uri(), 2)
    assert line_of(marked(SHOP, "from: by_"), path) == (path.as_uri(), 12)
    assert client.open(other, OTHER) == []
    assert line_of(marked(OTHER, "FROM shop.by"), other) == (path.as_uri(), 12)
    assert client.at("definition", other, marked(OTHER, "SEL")) is None


@pytest.mark.parametrize(
    ("before", "typed", "offered", "replaced"),
    [
        ("FROM orders o\n", "        JOIN or", {"orders", "dear", "by_shop"}, "or"),
        ("WHERE ", "o.", {"shop", "amount"}, ""),
        ("SELECT o.shop, ", "am", {"amount", "orders", ":least"}, "am"),
        ("from: ", "", {"orders", "dear", "by_shop"}, ""),
        ("path: /out/by_shop, format: ", "", {"csv", "json", "parquet"}, ""),
        ("  orders:\n", "    ", {"expect", "owner", "tags", "retention"}, ""),
        ("params: {least: 5}\n", "      ", {"partition_by", "inputs"}, ""),
        ("{least: 5}\n", "      inputs: {", {"orders", "dear"}, ""),
        ("  orders:\n", "    priority: 1\n    sort_by: [", {"shop", "amount"}, ""),
        ('"shop INT, amount INT"', ", ", {"refresh", "options"}, ""),
        ("dataflow: shop\n", "", {"description", "timezone", "defaults"}, ""),
    ],
)
def test_completion(
    client: Client, folder: Path, before: str, typed: str, offered: set[str], replaced: str
) -> None:
    """The server knows what the text meant before something was typed that is no blueprint yet."""
    path = folder / "completion.yaml"
    client.open(path, SHOP)
    text = marked(SHOP, before, typed)
    client.change_without_waiting(path, text.replace(MARK, ""), 2)
    items = client.at("completion", path, text)
    assert offered <= set(labels(items)), labels(items)
    (one,) = [item for item in items if item["label"] == min(offered)]
    where = one["textEdit"]["range"]
    assert where["end"]["character"] - where["start"]["character"] == len(replaced)
    client.tell("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})


def test_keys_that_are_there_are_not_offered(client: Client, folder: Path) -> None:
    path = folder / "keys.yaml"
    client.open(path, SHOP)
    text = marked(SHOP, "  orders:\n", "    ").replace(MARK, f"{MARK}\n")
    client.change_without_waiting(path, text.replace(MARK, ""), 2)
    found = labels(client.at("completion", path, text))
    assert "read" not in found
    assert "description" not in found
    kinds = marked(SHOP, "read: {connector: ")
    client.change_without_waiting(path, kinds.replace(MARK, ""), 3)
    assert {"files", "delta", "iceberg", "jdbc", "kafka", "python", "dlt", "spark", "feed"} == set(
        labels(client.at("completion", path, kinds))
    )


def test_a_broken_text_keeps_what_was_known(client: Client, folder: Path) -> None:
    path = folder / "broken.yaml"
    client.open(path, SHOP)
    broken = SHOP.replace("dataflow: shop\n", "dataflow: shop\nspark: {ansi: [\n")
    (problem,) = client.change(path, broken, 2)
    assert problem["code"] == "invalid-yaml"
    shown = client.at("hover", path, marked(broken, "FROM ord"))["contents"]["value"]
    assert "dear reads it `each`: " in shown
    found = client.at("definition", path, marked(broken, "FROM ord"))
    assert found["range"]["start"]["line"] == 3, "it moved down by a line"
    assert client.change(path, SHOP, 3) == []


def test_only_the_newest_text_is_told(client: Client, folder: Path) -> None:
    path = folder / "fast.yaml"
    client.open(path, SHOP)
    for version in range(2, 30):
        client.change_without_waiting(path, SHOP.replace("orders o", f"orders{version} o"), version)
    found = client.problems(path, 29)
    assert "orders29" in found[0]["message"]


def test_a_service_tells_columns_that_no_text_has(place: Served, tmp_path: Path) -> None:
    text = "dataflow: shop\ncomponents:\n  orders: {read: {connector: files, path: /data/*.csv, format: csv}}\n"
    path = tmp_path / "shop.yaml"
    with lsp(tmp_path, HEADGATE_URL=place.url, HEADGATE_TOKEN=place.token) as client:
        client.open(path, text)
        shown = hovered_with(client, path, marked(text, "  ord"), "generation")
    assert "generation 2, 2 partitions, 4 rows" in shown
    assert "price DECIMAL(12,2)" in shown


def test_a_home_that_nobody_serves_tells_as_much(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP)
    assert run(["apply", str(path), "--home", str(tmp_path / ".headgate")], Bootstrap()) == 0
    with lsp(tmp_path) as client:
        client.open(path, SHOP)
        hovered_with(client, path, marked(SHOP, "FROM ord"), "generation 0")
        uri = path.as_uri()
        client.tell("textDocument/didSave", {"textDocument": {"uri": uri}})
        assert client.problems(path) == []


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "controlplane.services.editor.language_server", None)
    assert run(["lsp"], Bootstrap()) == 1
    assert "pip install 'headgate[lsp]'" in capsys.readouterr().err


def test_a_service_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with lsp(tmp_path, HEADGATE_URL=url, HEADGATE_TOKEN="hg_x") as client:
            assert client.open(path, SHOP) == []
            shown = client.at("hover", path, marked(SHOP, "FROM ord"))["contents"]["value"]
            assert "shop INT" in shown
            assert "dear" in labels(client.at("completion", path, marked(SHOP, "FROM orders")))
    assert not (tmp_path / ".headgate").exists()

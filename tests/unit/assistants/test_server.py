"""`headgate mcp` as assistants start it: over pipes and HTTP, with bounded answers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.server.mcpserver.exceptions import ToolError

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.cli.mcp_answers import MOST_BYTES, MOST_ITEMS, bounded
from controlplane.cli.mcp_server import build
from tests.unit.assistants.world import answer, answers, environment, over_http, stdio
from tests.unit.notebook.conftest import place as place  # a fixture
from tests.unit.records.conftest import order
from tests.unit.records.world import Served

pytestmark = pytest.mark.unit
TOKEN = "t" * 32
LONG = "SELECT range AS n, repeat('ü', 900) AS t FROM range(500)"


def in_process(place: Served, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    with place.client() as client:
        return asyncio.run(answers(Client(build(client, 200)), *calls))


@contextmanager
def http_server(place: Served, folder: Path, *arguments: str) -> Iterator[tuple[str, list[str]]]:
    """The address of a process, and the lines that it wrote before it."""
    command = [sys.executable, "-m", "controlplane", "mcp", "--http", "--port", "0", *arguments]
    environ = environment(place.url, place.token)
    with subprocess.Popen(
        command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            lines: list[str] = []
            for line in process.stderr:
                if line.startswith("headgate: http://127.0.0.1:"):
                    yield line.split()[1], lines
                    break
                lines.append(line)
            else:
                raise AssertionError(lines)
        finally:
            process.kill()


def test_tools_answer_over_pipes(place: Served, tmp_path: Path) -> None:
    async def story() -> tuple[list[str], list[str]]:
        async with stdio(tmp_path, place.url, place.token) as client:
            tools = (await client.list_tools()).tools
            assert all(tool.description and tool.annotations for tool in tools)
        calls: tuple[tuple[str, dict[str, Any]], ...] = (
            ("status", {"target": "shop"}),
            ("query", {"sql": "SELECT count(*) FROM shop.orders"}),
            ("preview", {"dataset": "shop.orders", "rows": 2}),
            ("history", {"dataset": "shop.orders"}),
            ("search", {"text": "dear"}),
            ("lineage", {"dataset": "shop.dear"}),
            ("diff", {"dataset": "shop.orders", "before": "1", "after": "2"}),
            ("blueprint", {"dataflow": "shop"}),
            ("why", {"dataset": "shop.nothing"}),
            ("logs", {"subject": "shop.orders"}),
            ("branches", {}),
        )
        client = stdio(tmp_path, place.url, place.token)
        return [tool.name for tool in tools], await answers(client, *calls)

    names, texts = asyncio.run(story())
    assert {"edit_branch", "drop_branch", "plan"} <= set(names)
    status, query, preview, history, search, lineage, diff, blueprint, why, logs, branches = texts
    assert [flow["name"] for flow in answer(status)["dataflows"]] == ["shop"]
    assert answer(query)["rows"] == [[4]]
    assert [row["k"] for row in answer(preview)["rows"]] == [1, 2]
    assert [item["generation"] for item in answer(history)["items"]] == [2, 1]
    assert "shop.dear" in search
    assert "shop.orders" in lineage
    assert answer(diff)["dataset"] == "shop.orders"
    assert "SELECT * FROM orders" in answer(blueprint)["text"]
    assert "not-found: there is no dataset shop.nothing" in why
    assert logs.startswith("Error executing tool logs: headgate: not-found: ")
    assert answer(branches) == []


def test_http_answers_nothing_without_its_token(place: Served, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with http_server(place, tmp_path, "--token-file", str(file)) as (address, lines):
        assert lines == []
        (text,) = asyncio.run(over_http(address, TOKEN, ("status", {})))
        assert answer(text)["dataflows"]
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        for headers in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": "Basic eA=="}):
            with httpx2.Client(headers=headers, trust_env=False) as http:
                assert http.post(address, json=message).status_code == 401
                assert http.get(address).status_code == 401
                assert http.delete(address).status_code == 401
        headers = {"Authorization": f"Bearer {TOKEN}", "Host": "evil.example"}
        with httpx2.Client(headers=headers, trust_env=False) as http:
            assert http.post(address, json=message).status_code == 421


def test_http_makes_a_token_where_none_is_given(place: Served, tmp_path: Path) -> None:
    with http_server(place, tmp_path) as (address, lines):
        (line,) = lines
        token = line.removeprefix("headgate: Authorization: Bearer ").strip()
        (text,) = asyncio.run(over_http(address, token, ("branches", {})))
        assert answer(text) == []


def test_a_short_token_is_refused(
    tmp_path: Path, place: Served, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "token").write_text("short")
    monkeypatch.setenv("HEADGATE_URL", place.url)
    monkeypatch.setenv("HEADGATE_TOKEN", place.token)
    assert run(["mcp", "--http", "--token-file", str(tmp_path / "token")], Bootstrap()) == 1
    assert "at least 32 characters" in capsys.readouterr().err


def test_rows_are_limited(place: Served) -> None:
    too_many, none, some = in_process(
        place,
        ("query", {"sql": LONG, "rows": 501}),
        ("preview", {"dataset": "shop.orders", "rows": 0}),
        ("query", {"sql": "SELECT * FROM range(9)", "rows": 2}),
    )
    assert "less than or equal to 500" in too_many
    assert "greater than or equal to 1" in none
    assert (len(answer(some)["rows"]), answer(some)["more"]) == (2, True)


def test_a_query_only_reads(place: Served) -> None:
    (text,) = in_process(place, ("query", {"sql": "DROP TABLE shop.orders"}))
    assert "query-refused" in text


def test_an_answer_that_is_too_large_says_what_was_cut(place: Served) -> None:
    (text,) = in_process(place, ("query", {"sql": LONG, "rows": 500}))
    assert len(text.encode()) <= MOST_BYTES
    document = json.loads(text)
    shown = len(document["answer"]["rows"])
    assert {"at": "answer.rows", "shown": shown, "of": 500} in document["cut"]
    assert document["answer"]["rows"][1] == [1, "ü" * 900]


def test_a_preview_ends_with_a_whole_row(place: Served) -> None:
    rows = [order(k % 28 + 1, "x" * 1_000) for k in range(200)]
    place.world.commit({"a.csv": rows}, dataset="shop.wide")
    text = in_process(place, ("preview", {"dataset": "shop.wide", "rows": 200}))[0]
    if text.startswith("Error"):
        pytest.fail(text)
    assert len(text.encode()) <= MOST_BYTES
    assert answer(text)["more_bytes"] is True
    assert 20 < len(answer(text)["rows"]) < 200


@pytest.mark.parametrize(
    "value",
    [
        ["x" * 10] * 100_000,
        {str(k): "y" * 100 for k in range(10_000)},
        "z" * 10_000_000,
        [[["ü\ud800" * 50] * 30] * 30] * 30,
    ],
)
def test_every_shape_is_bounded(value: object) -> None:
    text = bounded(value)
    assert len(text.encode()) <= MOST_BYTES
    assert json.loads(text)["cut"]


def test_what_fits_is_whole() -> None:
    assert json.loads(bounded({"a": [1] * MOST_ITEMS})) == {"answer": {"a": [1] * MOST_ITEMS}}


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(ToolError, match="too-large"):
        bounded({"k" * MOST_BYTES: 1})


def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "controlplane.cli.mcp_server", None)
    monkeypatch.delattr("controlplane.cli.mcp_server", raising=False)
    assert run(["mcp"], Bootstrap()) == 1
    assert "pip install 'headgate[mcp]'" in capsys.readouterr().err

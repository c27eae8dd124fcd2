"""`headgate open`: a link that signs a browser in once, at a service or at a home that nobody else
serves."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.cli.pages import _reachable
from tests.e2e.workspace import ended
from tests.unit.ui.world import Pages, pages

SHOP = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: data/*.csv, format: csv, schema: "id INT, price INT"}
  dear: {transform: {sql: SELECT id FROM orders WHERE price > 20}}
"""
OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def world() -> Iterator[Pages]:
    with pages() as opened:
        yield opened


def follow(http: httpx2.Client, url: str) -> httpx2.Response:
    """As a browser does: the page, and then its button."""
    page = http.get(url)
    assert page.status_code == 200, page.text
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))
    return http.post("/open", data=hidden, headers=OWN)


def test_a_stopped_home_is_shown_until_somebody_ends_it(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(SHOP)
    home = str(tmp_path / "home")
    assert run(["apply", str(tmp_path / "shop.yaml"), "--home", home], Bootstrap()) == 0
    command = [sys.executable, "-m", "controlplane", "open", "shop.dear", "--print", "--home", home]
    with ended(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    ) as process:
        assert process.stdout
        url = process.stdout.readline().decode().strip()
        with httpx2.Client(base_url=url.partition("/open")[0], trust_env=False) as http:
            answer = follow(http, url)
            assert (answer.status_code, answer.headers["location"]) == (303, "/datasets/shop.dear")
            for path in (
                "/",
                "/flows",
                "/flows/shop",
                "/flows/shop/blueprint",
                "/datasets",
                "/datasets/shop.dear",
            ):
                assert http.get(path).status_code == 200, path
            assert "Nothing is being computed" in http.get("/").text
            assert http.get(url).status_code == 410, "it opens one session"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert b"until Ctrl-C" in err


def test_a_service_gives_a_link_and_the_command_ends(
    world: Pages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def note(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", note)
    monkeypatch.setenv("HEADGATE_URL", world.url)
    monkeypatch.setenv("HEADGATE_TOKEN", world.token)
    assert run(["open", "shop"], Bootstrap()) == 0
    assert capsys.readouterr().out == "", "the link is not left in a terminal's history"
    assert run(["open", "--print", "--output", "json"], Bootstrap()) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(opened) == 1
    with world.http(signed_in=False) as http:
        cross = http.post("/open", data={"key": answer["url"].partition("key=")[2]})
        assert cross.status_code == 403, "another site does not use it up"
        assert follow(http, opened[0]).headers["location"] == "/flows/shop"
        assert follow(http, answer["url"]).headers["location"] == "/"
        assert http.get("/flows").status_code == 200


def test_what_listens_everywhere_is_opened_here() -> None:
    assert _reachable("http://0.0.0.0:8420") == "http://127.0.0.1:8420"
    assert _reachable("http://[::]:8420") == "http://[::1]:8420"
    assert _reachable("https://headgate.example.com") == "https://headgate.example.com"

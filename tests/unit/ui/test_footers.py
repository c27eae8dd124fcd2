"""The commands behind *Share / API* of pages: each is run as it stands there, against the home that
the page is of."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from html import unescape

import httpx2
import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from tests.unit.ui.test_pages import PATHS
from tests.unit.ui.world import Pages, pages

TWIN = re.compile(
    r'<div class="twin"><span class="soft">(\w+)</span><code tabindex="0">(.*?)</code>', re.DOTALL
)
STANDS = (0, 1)  # 1: something of it has failed
MORE = (
    "/datasets/shop.orders?from=2025-01-03.csv&to=2025-01-09.csv",
    "/datasets?q=state:failed&owner=ada",
)
NO_QUERIES = (0, 1, 70)  # whatever it is, it is no wrong usage
# Nobody lists sources here
WITHOUT_WORKERS = {
    "plan": ["--no-refresh"],
    "refresh": ["--timeout", "0"],
    "query": ["--timeout", "1"],
}


@pytest.fixture(scope="module")
def world() -> Iterator[Pages]:
    with pages() as found:
        yield found


def twins(http: httpx2.Client, path: str) -> dict[str, str]:
    return commands_of(http.get(path).text)


def commands_of(page: str) -> dict[str, str]:
    menu = page.split('<details class="confirm share"')[1].split("</details>")[0]
    return {label: unescape(text) for label, text in TWIN.findall(menu)}


@pytest.mark.parametrize("path", [*PATHS, *MORE])
def test_commands_are_run(
    world: Pages, path: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADGATE_URL", world.url)
    monkeypatch.setenv("HEADGATE_TOKEN", world.token)
    with world.http() as http:
        found = twins(http, path)
        for command in found["Shell"].split(" && "):
            name, *arguments = shlex.split(command, comments=True)
            assert name == "headgate"
            code = run((*arguments, *WITHOUT_WORKERS.get(arguments[0], [])), Bootstrap())
            err = capsys.readouterr().err
            assert code in (NO_QUERIES if arguments[0] == "query" else STANDS), f"{command}: {err}"
            assert "error" not in err.lower() or arguments[0] == "query", f"{command}: {err}"
        assert_curl_is_answered(http, found["curl"], path)
        assert http.get(found["Link"]).status_code == 200


def assert_curl_is_answered(http: httpx2.Client, line: str, path: str) -> None:
    program, *arguments = shlex.split(line)
    assert program == "curl"
    if "-d" in arguments:
        body = json.loads(arguments[arguments.index("-d") + 1])
        assert http.post(arguments[-1], json=body).status_code in (200, 503), (
            "nobody answers queries here"
        )
        return
    assert (
        http.get(arguments[-1]).json()
        == http.get(path, headers={"Accept": "application/json"}).json()
    )


def test_a_draft_is_planned_by_the_whole_path_of_its_file(world: Pages) -> None:
    with world.http() as http:
        page = http.get("/plan.json?flow=shop").json()
        draft = http.post(
            "/plan?flow=shop", data={"flow": "shop", "text": page["text"], "do": "plan", "csrf": ""}
        )
        commands = commands_of(draft.text)
    assert shlex.split(commands["Shell"]) == ["headgate", "plan", page["file"]]
    assert page["file"].startswith("/")

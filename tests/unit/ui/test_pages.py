"""Pages and their twins over a real server: who gets in, what every answer carries, what texts of
users become."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from html import escape
from http.client import HTTPConnection
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urljoin, urlsplit

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import Headers
from starlette.requests import Request

from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ui import draw, page_rendering, static_files
from controlplane.ui import pages as page_routes
from controlplane.ui.forms import own_address
from controlplane.ui.gate import WrongHost, require_host
from tests.stores import damage_node
from tests.unit.api.world import serving
from tests.unit.ui.world import HOSTILE, Pages, pages

PATHS = (
    "/",
    "/flows",
    "/flows/shop",
    "/flows/shop?on=shop.dear",
    "/flows/shop?on=shop.spent&column=total",
    "/flows/shop?wave=shop.rev1",
    "/flows/shop/blueprint",
    "/datasets",
    "/datasets?q=dear%20order&kind=sql",
    "/bulk?do=compute-again&on=shop.dear&on=shop.export&on=other",
    "/datasets/shop.orders",
    "/datasets/shop.told",
    "/datasets/shop.strict",
    "/datasets/shop.export",
    "/datasets/shop.orders?tab=data",
    "/datasets/shop.orders?tab=partitions",
    "/datasets/shop.orders?tab=columns",
    "/datasets/shop.strict?tab=checks",
    "/datasets/shop.orders?tab=history",
    "/datasets/shop.dear?tab=code",
    "/datasets?sort=updated",
    "/find?q=dear",
    "/help/tutorial",
    "/activity",
    "/activity?flow=shop",
    "/activity?tab=audit&machines=yes",
    "/cost",
    "/cost?flow=shop&days=30",
    "/branches",
    "/branches/main...dev",
    "/checks",
    "/sources",
    "/feeds",
    "/datasets/shop.orders/partition?key=2025-01-03.csv",
    "/datasets/shop.grand/partition?key=",
    "/datasets/shop.orders/compare",
    "/datasets/shop.orders/profile",
    "/datasets/shop.orders/rollback?to=1",
    "/plan",
    "/plan?flow=shop",
    "/query",
    "/query?table=shop.orders",
    "/query?of=shop.dear",
    "/query/tables?q=or",
    "/query/tables/shop.orders",
    "/?branch=dev",
    "/flows/other?branch=dev",
    "/datasets?branch=dev",
    "/datasets/shop.orders?branch=dev",
    "/plan?flow=other&branch=dev",
    "/settings/tokens",
    "/settings/care",
    "/help/keys",
)
HTML_BYTES = 100_000
TEMPLATES = Path(page_rendering.__file__).parent / "templates"


@pytest.fixture(scope="module")
def world() -> Iterator[Pages]:
    with pages() as found:
        yield found


@pytest.mark.parametrize("path", PATHS)
def test_a_page_is_closed_small_and_its_twin_is_the_same_value(world: Pages, path: str) -> None:
    bare, _, query = path.partition("?")
    twin = ("/index.json" if bare == "/" else f"{bare}.json") + (f"?{query}" if query else "")
    with world.http(signed_in=False) as http:
        assert http.get(path).headers["location"].startswith("/login")
        assert http.get(twin).status_code == 401
    with world.http() as http:
        page = http.get(path)
        assert (page.status_code, page.headers["cache-control"]) == (200, "no-store")
        assert page.headers["content-security-policy"].startswith("default-src 'self';")
        assert len(page.content) < HTML_BYTES
        value = http.get(twin).json()
        assert value == http.get(path, headers={"Accept": "application/json"}).json()


def test_a_drivers_token_opens_no_page(world: Pages) -> None:
    text, _ = tokens.create(Context(world.services.store), "d1", ("driver",))
    own = {"Sec-Fetch-Site": "same-origin"}
    with world.http(signed_in=False) as http:
        for path in (*PATHS, "/index.json"):
            assert http.get(path, headers={"Authorization": f"Bearer {text}"}).status_code == 403, (
                path
            )
        assert http.post("/login", data={"token": text}, headers=own).status_code == 401
        wish = {"Authorization": f"Bearer {text}"}
        assert (
            http.post(
                "/actions/pause", data={"target": "shop", "once": "0" * 32}, headers=wish
            ).status_code
            == 403
        )


def test_branches_are_compared_by_data(world: Pages) -> None:
    with world.http() as http:
        differing = http.get("/branches/main...dev.json").json()["difference"]["datasets"]
        assert [(one["dataset"], one["state"], one["changed"]) for one in differing] == [
            ("other.monthly", "changed", 1)
        ]
        assert ", datasets: 1." in http.get("/branches/main...dev").text


def test_what_breaks_is_told_as_a_page_without_its_reason(world: Pages) -> None:
    def broken(*_: object, **__: object) -> NoReturn:
        raise ZeroDivisionError("a secret place")

    headers = {
        "Accept": "text/html",
        "X-Request-ID": "r1",
        "Authorization": f"Bearer {world.token}",
    }
    services = replace(world.services, render=broken, stopping=threading.Event())
    with (
        serving(services) as url,
        httpx2.Client(base_url=url, headers=headers, trust_env=False) as http,
    ):
        page = http.get("/datasets/shop.orders/rows")
    assert (page.status_code, page.headers["content-type"].partition(";")[0]) == (500, "text/html")
    assert "request <code>r1</code>" in page.text
    assert "secret place" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'self'")


def test_a_damaged_tree_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pages(tmp_path) as home, home.http() as http:
        with home.world.store.read() as tx:
            root = tx.states.newest("main")["shop.dear"].root
        damage_node(home.world.store, root)
        damaged = http.get("/datasets/shop.dear?tab=partitions")
        other = http.get("/datasets/shop.orders?tab=partitions")
    assert (damaged.status_code, other.status_code) == (500, 200)
    assert "headgate fsck" in damaged.text


def test_a_long_blueprint_is_shown_in_part(world: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    with world.http() as http:
        whole = http.get("/flows/other/blueprint").text
        monkeypatch.setattr(page_routes, "LINES_SHOWN", 2)
        part = http.get("/flows/other/blueprint").text
        text = http.get("/flows/other/blueprint.json").json()["dataflow"]["text"]
    lines = len(text.splitlines())
    assert f'<span class="at">{lines}</span>' in whole
    assert "lines. This page" not in whole
    assert '<span class="at">2</span>' in part
    assert '<span class="at">3</span>' not in part
    assert f"The first 2 of {lines} lines." in part


@pytest.mark.parametrize("dense", [False, True])
def test_names_of_boxes_begin_with_the_texts_that_are_seen(
    world: Pages, monkeypatch: pytest.MonkeyPatch, dense: bool
) -> None:
    """People say to their computer what they see (WCAG 2.5.3)."""
    if dense:
        monkeypatch.setattr(draw, "COMPACT_FROM", 0)
    with world.http() as http:
        page = http.get("/flows/shop?show=all").text
    boxes = page.split('<a class="node ')[1:]
    assert len(boxes) > 3
    seen = [
        " ".join(re.findall(r"<text[^>]*>([^<]+)</text>", box.split("</a>")[0])) for box in boxes
    ]
    names = [box.split('aria-label="')[1].split('"')[0] for box in boxes]
    assert [name[: len(texts)] for name, texts in zip(names, seen, strict=True)] == seen
    assert ('<text class="sub"' in page) is not dense


def test_a_run_and_an_attempt_have_pages(world: Pages) -> None:
    with world.http() as http:
        run = http.get("/activity.json").json()["runs"][0]
        text = http.get(f"/activity/{run['id']}").text
        for step in http.get(f"/activity/{run['id']}.json").json()["steps"]:
            assert f'/datasets/{step["dataset"]}"' in text
        attempt = http.get(f"/activity/{run['id']}.json").json()["attempts"][0]["attempt"]
        page = http.get(f"/attempts/{attempt}")
        assert page.status_code == 200
        assert "a log" in page.text
        told = http.get(f"/attempts/{attempt}.json").json()
        assert (told["attempt"]["ended"]["outcome"], told["log"]) == ("done", "a log")
        for gone in (
            "/attempts/" + "0" * 32,
            "/attempts/x",
            "/activity/no.run",
            "/branches/main...no",
            "/branches/x",
        ):
            assert http.get(gone).status_code == 404, gone


ELSEWHERE = (
    "//evil.example/x",
    "/%2Fevil.example/x",
    "/%5Cevil.example/x",
    "/%09/evil.example/x",
    "/%0A%5Cevil.example",
)
KINDS_OF_REQUESTS: tuple[dict[str, str], ...] = (
    {"Accept": "text/html"},
    {"Accept": "application/json"},
    {"Authorization": "AWS4-HMAC-SHA256 Credential=x"},
)


@pytest.mark.parametrize("path", ELSEWHERE)
@pytest.mark.parametrize("headers", KINDS_OF_REQUESTS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_path_that_browsers_read_as_another_host_is_refused(
    world: Pages, path: str, headers: dict[str, str], method: str
) -> None:
    connection = HTTPConnection(world.url.removeprefix("http://"), timeout=60)
    try:
        connection.request(method, f"{path}?branch=b", headers=headers)
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Content-Type"]) == (404, "application/problem+json")
        assert b"evil" not in answer.read()
    finally:
        connection.close()


@given(
    path=st.text(st.sampled_from("/\\\t\n\r:@%?# evil.ex\u2028\u00e9"), max_size=12).map(
        lambda rest: f"/{rest}"
    ),
    query=st.text(st.sampled_from("branch=&%/\\"), max_size=12),
)
@settings(max_examples=300, deadline=None)
def test_a_link_made_from_a_request_has_no_host(path: str, query: str) -> None:
    scope = {
        "type": "http",
        "path": path,
        "query_string": query.encode(),
        "headers": [],
        "scheme": "http",
    }
    link = own_address(
        Request({**scope, "server": ("localhost", 80)}), without=("part",), branch="main"
    )
    # As browsers do
    read = "".join(letter for letter in link if letter not in "\t\n\r").replace("\\", "/")
    assert urlsplit(urljoin("http://ours.example/flows", read)).netloc == "ours.example"
    assert not read.startswith("//")
    assert unquote(urlsplit(link).path).strip("/") == path.strip("/")


@pytest.mark.parametrize(
    "host", ["evil.example@localhost", "localhost/x", "localhost?x", "[::1]#x", "a\\@localhost"]
)
def test_a_host_has_no_user_and_no_path(host: str) -> None:
    with pytest.raises(WrongHost):
        require_host(Headers({"host": host}), frozenset())


def test_no_template_has_scripts_styles_or_handlers_in_its_markup() -> None:
    for file in TEMPLATES.iterdir():
        text = file.read_text()
        assert not re.search(r"\sstyle=|\son[a-z]+=|<style|javascript:|\|\s*safe|hx-on", text), (
            file.name
        )
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text)), file.name


def test_texts_of_users_stay_texts(world: Pages) -> None:
    with world.http() as http:
        text = http.get("/datasets/shop.told/rows").text
    for cell in HOSTILE[:3]:
        assert cell not in text
        assert escape(cell).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in text


def test_vendored_files_are_what_their_list_says() -> None:
    for entry in json.loads((static_files.FOLDER / "vendored.json").read_text()):
        assert (
            sha256((static_files.FOLDER / entry["file"]).read_bytes()).hexdigest()
            == entry["sha256"]
        )
        assert (static_files.FOLDER / entry["licence_file"]).read_text().strip()


def test_signing_in_and_out_needs_a_page_of_our_own(world: Pages) -> None:
    form, own = {"token": world.token, "next": "//evil.example"}, {"Sec-Fetch-Site": "same-origin"}
    with world.http(signed_in=False) as http:
        assert (
            http.post("/login", data=form, headers={"Sec-Fetch-Site": "cross-site"}).status_code
            == 403
        )
        assert http.post("/login", data={"token": "hg_wrong"}, headers=own).status_code == 401
        answer = http.post("/login", data=form, headers=own)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        page = http.get("/")
        assert page.status_code == 200
        assert http.get("/v1/branches/main/status").status_code == 200
        refused = http.post("/v1/branches/main/pause", json={"target": "shop"}, headers=own)
        assert refused.status_code == 403, "a session alone changes nothing"
        assert http.get("/", headers={"Host": "evil.example"}).status_code == 403, (
            "a name bent to us"
        )
        proof = re.search(r'name="csrf" value="([0-9a-f]+)"', page.text)
        assert proof
        assert http.post("/logout", data={"csrf": "0" * 64}, headers=own).status_code == 403
        assert http.post("/logout", data={"csrf": proof[1]}, headers=own).status_code == 303
        assert http.get("/").status_code == 303

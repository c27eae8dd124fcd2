"""First rows of a dataset: rights come before any copy of them, and rows are read once."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace

import httpx2
import pytest

from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ports.records import WantedRows
from controlplane.ui.rows_cache import OF_AN_ENTRY, RowsCache
from tests.unit.api.world import serving
from tests.unit.ui.world import Pages, pages

ROWS = "/datasets/shop.dear/rows"


class Counted:
    """Renders rows, and counts how often."""

    def __init__(self, home: Pages) -> None:
        self.home, self.reads = home, 0

    def __call__(self, selection: WantedRows) -> Iterator[bytes]:
        self.reads += 1
        return self.home.services.render(selection)


@pytest.fixture
def counted() -> Iterator[tuple[Pages, Counted]]:
    with pages() as home:
        render = Counted(home)
        with serving(replace(home.services, render=render)) as url:
            yield replace(home, url=url), render


def test_rows_of_a_root_are_read_once(counted: tuple[Pages, Counted]) -> None:
    home, render = counted
    with home.http() as http:
        first, second = http.get(ROWS), http.get(ROWS)
        assert (render.reads, first.text == second.text) == (1, True)
        assert first.headers["cache-control"] == "private, no-cache"
        assert len(http.get(f"{ROWS}.json").json()["items"]) == 20
        home.late_file()
        http.get(ROWS)
        assert render.reads == 2


def test_a_browser_keeps_rows_until_they_change(counted: tuple[Pages, Counted]) -> None:
    home, _ = counted
    with home.http() as http:
        tag = http.get(ROWS).headers["etag"]
        same = http.get(ROWS, headers={"If-None-Match": tag})
        assert (same.status_code, same.content) == (304, b"")
        home.late_file()
        assert http.get(ROWS, headers={"If-None-Match": tag}).status_code == 200


def test_rights_are_asked_before_any_copy(counted: tuple[Pages, Counted]) -> None:
    home, render = counted
    text, _ = tokens.create(Context(home.services.store), "viewer", ("view",))
    with home.http() as http:
        tag = http.get(ROWS).headers["etag"]
    headers = {"Authorization": f"Bearer {text}"}
    with httpx2.Client(base_url=home.url, headers=headers, trust_env=False) as http:
        for sent in ({}, {"If-None-Match": tag}):
            assert http.get(ROWS, headers=sent).status_code == 403
        assert http.get("/datasets/shop.dear.json").json()["records"] is None
        assert "may not see rows" in http.get("/datasets/shop.dear?tab=data").text
    assert render.reads == 1


def test_each_look_at_rows_is_in_the_audit(counted: tuple[Pages, Counted]) -> None:
    home, _ = counted
    with home.http() as http:
        tag = http.get(ROWS).headers["etag"]
        http.get(ROWS)
        http.get(ROWS, headers={"If-None-Match": tag})
        reads = http.get("/v1/audit/reads").json()["items"]
    assert [read["dataset"] for read in reads].count("shop.dear") == 3


def test_the_cache_has_a_bound_in_bytes() -> None:
    cache = RowsCache(most_bytes=2 * (OF_AN_ENTRY + 4))
    for number in range(4):
        cache.put(("default", bytes([number])), b"1234")
    kept = [number for number in range(4) if cache.get(("default", bytes([number])))]
    assert kept == [2, 3]
    cache.put(("default", b"large"), bytes(3 * OF_AN_ENTRY))
    assert cache.get(("default", b"large")) is None
    assert cache.get(("other", bytes([3]))) is None


def test_pages_are_compressed_where_no_other_site_chose_the_address() -> None:
    with pages() as home, home.http() as http:
        for site, encoding in (
            ("same-origin", "gzip"),
            ("none", "gzip"),
            ("cross-site", None),
            ("same-site", None),
        ):
            page = http.get("/datasets", headers={"Sec-Fetch-Site": site})
            assert page.headers.get("content-encoding") == encoding, site
            assert "Sec-Fetch-Site" in page.headers["vary"]
        assert "content-encoding" not in http.get("/datasets").headers
        headers = {"Sec-Fetch-Site": "none", "Accept-Encoding": "gzip"}
        with http.stream("GET", "/datasets", headers=headers) as answer:
            raw = b"".join(answer.iter_raw())
        assert gzip.decompress(raw).startswith(b"<!doctype html>")


def test_a_fragment_is_compressed_where_its_address_has_nothing_else() -> None:
    """A page that another site opened requests them from the same origin."""
    with pages() as home, home.http() as http:
        for address, encoding in (
            ("/?part=needs", "gzip"),
            ("/datasets/shop.dear?part=head", "gzip"),
            ("/datasets/shop.dear?part=head&gen=guess", None),
        ):
            part = http.get(address, headers={"Sec-Fetch-Site": "same-origin"})
            assert part.headers.get("content-encoding") == encoding, address


def test_what_an_export_or_an_empty_dataset_has_not_is_no_fault() -> None:
    with pages() as home, home.http() as http:
        for query in ("tab=data", "tab=checks", "tab=history", "gen=2", "from=a&to=b"):
            page = http.get(f"/datasets/shop.export?{query}")
            assert page.status_code == 200, query
            assert 'id="whyh"' in page.text, query
        for part in ("partitions", "history", "checks"):
            assert http.get(f"/datasets/shop.export?part={part}").status_code == 404
        assert http.get("/datasets/shop.strict?from=a&to=b").status_code == 200


def test_a_tab_computes_its_own_part_only() -> None:
    with pages() as home, home.http() as http:
        costs = {}
        for address in ("", "?tab=data", "?part=head"):
            http.get(f"/datasets/shop.orders{address}")
            before = home.world.store.statements
            http.get(f"/datasets/shop.orders{address}")
            costs[address] = home.world.store.statements - before
        assert costs["?tab=data"] < costs[""]
        assert costs["?part=head"] <= costs["?tab=data"]

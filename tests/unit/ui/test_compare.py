"""How two generations differ, on a page: rows in pairs, with the real process that compares."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from controlplane.operations.desired import blueprints
from controlplane.services.queries.adapter.row_comparison import RowComparer
from tests.unit.api.world import serving
from tests.unit.diffs.world import rows
from tests.unit.ui.asked import SHOP, asked_home
from tests.unit.ui.test_budget import HTML_BYTES
from tests.unit.ui.world import HOSTILE

CHANGED = 60
PATH = "/datasets/shop.totals/compare"


@dataclass
class Compared:
    """A home with two generations. `read`: files that were compared, by request."""

    http: httpx2.Client
    world: Any
    read: list[tuple[list[str], list[str]]]

    def twin(self, query: str) -> Any:
        return self.http.get(f"{PATH}.json?{query}").json()

    def page(self, query: str) -> str:
        page = self.http.get(f"{PATH}?{query}")
        assert page.status_code == 200
        return page.text


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    folder = tmp_path_factory.mktemp("home")
    comparer, read = RowComparer(str(folder), threading.Event()), list[Any]()

    def compare(files: Any, *, timeout_s: float) -> Any:
        read.append((files.before, files.after))
        return comparer(files, timeout_s=timeout_s)

    with asked_home(folder) as (filled, world):
        same = {f"same{n}": rows((1_000 + n, "same")) for n in range(20)}
        world.commit({**same, "a": rows(*((n, HOSTILE[0]) for n in range(CHANGED)))})
        world.commit({**same, "a": rows(*((n, HOSTILE[1]) for n in range(CHANGED)), (99, "new"))})
        headers = {"Authorization": f"Bearer {filled.token}", "Accept": "text/html"}
        services = replace(filled.services, compare=compare)
        with (
            serving(services) as url,
            httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as http,
        ):
            yield Compared(http, world, read)


def test_rows_are_one_table_of_pairs_that_reads_only_what_differs(home: Compared) -> None:
    home.read.clear()
    page = home.page("rows=yes")
    ((before, after),) = home.read
    assert (len(before), len(after)) == (1, 1)
    assert f"{CHANGED} rows changed" in page
    assert "1 column equal" in page
    assert "unchanged columns" in page
    assert page.count('class="changed"') == 50
    assert page.count('<tr class="added">') == 1
    assert "<script>document" not in page
    assert re.search("<del>&lt;script.*</del> →\\s*<ins>&lt;img", page)


def test_the_numbers_are_those_of_the_rows(home: Compared) -> None:
    difference = home.twin("rows=yes")["difference"]
    by_key = difference["row_changes"]["by_key"]
    assert by_key["columns"] == {"v": CHANGED}
    assert (by_key["changed"], by_key["added"], by_key["removed"]) == (CHANGED, 1, 0)
    assert difference["rows"] == 1


def test_a_column_is_chosen(home: Compared) -> None:
    page = home.page("rows=yes&column=v")
    assert 'aria-current="true"><code>v</code>' in page
    assert page.count('class="changed"') == 50
    assert 'class="changed"' not in home.page("rows=yes&column=k")


def test_no_rows_are_read_unless_they_are_requested(home: Compared) -> None:
    home.read.clear()
    assert "Rows that differ" not in home.page("")
    assert home.read == []


def test_the_page_is_small(home: Compared) -> None:
    import gzip

    assert len(gzip.compress(home.page("rows=yes").encode())) <= HTML_BYTES


def test_columns_that_are_expected_to_be_unique_are_the_key(home: Compared) -> None:
    text = SHOP.replace('v STRING"}', 'v STRING"}\n    expect: [{unique: [k], on_fail: warn}]')
    blueprints.apply(home.world.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", text, {})])
    by_key = home.twin("rows=yes")["difference"]["row_changes"]["by_key"]
    assert (by_key["key"], by_key["is_inferred"], by_key["matched"]) == (["k"], False, CHANGED)
    assert "Rows are paired by" in home.page("rows=yes")

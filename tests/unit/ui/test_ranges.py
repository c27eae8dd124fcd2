"""Datasets with many partitions: shown as ranges that one looks into, from a few nodes of the
tree."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from itertools import islice
from typing import Any

import httpx2
import pytest
from sqlalchemy import event

from controlplane.core import tree
from controlplane.core.tree import Entry
from controlplane.operations.desired import controls
from controlplane.store.sql.store import SqlStore
from controlplane.ui import pictures, views
from controlplane.ui.ranges import CELLS
from dataplane.contract.identity import Content
from dataplane.contract.schemas import Field, StructType
from tests.unit.expectations.world import World
from tests.unit.tree.test_ranges import Planted
from tests.unit.ui.test_actions import OWN, fields
from tests.unit.ui.world import Pages, pages

DATASET = "shop.told"
PATH = f"/datasets/{DATASET}"
TAB = f"{PATH}?tab=partitions"
MOST_NODES = 100
HTML_BYTES = 30_000
ELEMENTS = 2_000


@pytest.fixture
def home() -> Iterator[Pages]:
    with pages() as found:
        # Or else planning would look at what it has now
        controls.pause(found.world.ctx, "main", DATASET)
        yield found


def commit(world: World, root: bytes, partitions: int) -> None:
    """As the next generation."""
    with world.store.begin() as tx:
        state = tx.states.newest("main", [DATASET])[DATASET]
        rows, seq, generation = 10 * partitions, state.seq + 1, state.generation + 1
        tx.states.commit(
            replace(
                state, seq=seq, generation=generation, root=root, partitions=partitions, rows=rows
            ),
            state.seq,
        )


def fragment(world: World, number: int = 0) -> bytes:
    """One that there is."""
    with world.store.read() as tx:
        entries = tree.scan(tx.nodes, tx.states.newest("main", ["shop.orders"])["shop.orders"].root)
        return next(islice(entries, number, None)).fragment


def built(world: World, keys: Iterable[str]) -> bytes:
    some = fragment(world)
    with world.store.begin() as tx:
        return tree.build(tx.nodes, (Entry(key, some, Content(10, 1, 1)) for key in keys))


def edited(world: World, root: bytes, key: str) -> bytes:
    other = fragment(world, 1)
    with world.store.begin() as tx:
        return tree.edit(tx.nodes, root, [(key, Entry(key, other, Content(10, 2, 2)))])


@contextmanager
def counted(world: World) -> Iterator[list[int]]:
    """Nodes that are asked of the database."""
    reads: list[int] = []
    assert isinstance(world.store, SqlStore)
    engine = world.store._engines.reader

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if "FROM nodes" in statement:
            reads.append(sum(isinstance(value, bytes) for value in parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield reads
    finally:
        event.remove(engine, "before_cursor_execute", note)


def value(http: httpx2.Client, query: str = "") -> Any:
    answer = http.get(f"{PATH}.json{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def looked_into(item: Any) -> str:
    after = f"from={item['after']}&" if item["after"] else ""
    return f"?{after}to={item['last']}"


def test_a_page_of_100_million_partitions_reads_a_few_nodes(home: Pages) -> None:
    """All others of its tree are not there."""
    nodes = Planted()
    with home.world.store.begin() as tx:
        tx.nodes.put_nodes(nodes.blobs)
    commit(home.world, nodes.root, 100_000_000)
    commit(home.world, edited(home.world, nodes.root, nodes.key(0)), 100_000_000)
    with home.http() as http, counted(home.world) as reads:
        page = http.get(TAB)
        assert page.status_code == 200
        assert 0 < sum(reads) <= MOST_NODES
        assert page.text.count('class="c') > 300
        assert len(gzip.compress(page.content)) <= HTML_BYTES
        found = value(http)
        assert (found["partitions"], found["changed"]) == (None, None)
        assert sum(one["partitions"] for one in found["ranges"]["items"]) > 99_000_000
        reads.clear()
        inside = value(http, looked_into(found["ranges"]["items"][0]))["ranges"]["items"]
        assert sum(reads) <= MOST_NODES
        assert len(inside) > 200
        assert sum(one["partitions"] for one in inside) == found["ranges"]["items"][0]["partitions"]


def test_generations_of_many_partitions_cost_few_nodes_each(home: Pages) -> None:
    keys = [f"{n:06}" for n in range(20_000)]
    root = built(home.world, keys)
    for n in range(30):
        commit(home.world, root, len(keys))
        root = edited(home.world, root, keys[n * 600])
    with home.http() as http, counted(home.world) as reads:
        assert http.get(TAB).status_code == 200
        assert 0 < sum(reads) <= MOST_NODES
        reads.clear()
        page = http.get(f"{PATH}?gen=31")
        assert 0 < sum(reads) <= MOST_NODES
    assert len(re.findall(r'class="c\d new', page.text)) == 1, (
        "what a generation changed is outlined"
    )


def test_one_looks_into_a_range_down_to_its_partitions(home: Pages) -> None:
    commit(home.world, built(home.world, [f"{n:06}" for n in range(20_000)]), 20_000)
    with home.http() as http:
        items = value(http)["ranges"]["items"]
        assert len(items) <= CELLS
        assert sum(one["partitions"] for one in items) == 20_000
        item = items[7]
        found = value(http, looked_into(item))["ranges"]["items"]
        assert [one["partitions"] for one in found] == [1] * item["partitions"]
        page = http.get(f"{PATH}{looked_into(item)}").text
        assert f"{PATH}/partition?key={found[0]['last']}" in page
        assert f"headgate ranges {DATASET} --from {item['after']} --to {item['last']}" in page
        following = re.search(r'href="([^"]*)">The next ones', http.get(TAB).text)
        assert following is not None
        behind = value(http, following[1].partition("#")[0].removeprefix(PATH))["ranges"]["items"]
        assert behind[0]["after"] == items[99]["last"]
        assert "No partition lies there" in http.get(f"{PATH}?from=999999").text


def test_two_years_of_days_are_a_calendar(home: Pages) -> None:
    days = [str(date(2023, 1, 1) + timedelta(days=n)) for n in range(730)]
    commit(home.world, built(home.world, days), len(days))
    with home.http() as http:
        page = http.get(TAB)
        assert "one cell is one day" in page.text
        assert page.text.count('<rect class="c') == 730 + 5, "and the scale"
        assert len(gzip.compress(page.content)) <= HTML_BYTES
    commit(home.world, built(home.world, sorted(f"k{n}" for n in range(730))), 730)
    with home.http() as http:
        assert "one cell is a range of keys" in http.get(TAB).text


def squares(page: str) -> int:
    return page.count(" data-last=")


def test_2000_days_are_years_of_weeks(home: Pages) -> None:
    days = [f"flown={date(2019, 1, 1) + timedelta(days=n)}" for n in range(2_000)]
    commit(home.world, built(home.world, days), len(days))
    with home.http() as http, counted(home.world) as reads:
        page = http.get(TAB)
        assert 0 < sum(reads) <= MOST_NODES
        assert "one cell is one week" in page.text
        assert len(gzip.compress(page.content)) <= HTML_BYTES
        assert len(re.findall("<[a-z]", page.text)) <= ELEMENTS
        found = value(http)
    items = found["ranges"]["items"]
    assert found["axis"] == {"period": "week", "is_exact": True}
    assert squares(page.text) == len(items) == 5 * 53 + 25
    assert sum(one["partitions"] for one in items) == 2_000
    assert {one["partitions"] for one in items[:52]} == {7}
    assert "2019-01-08 to 2019-01-14; 7 partitions up to flown=2019-01-14; 70 rows" in page.text


def test_many_partitions_a_day_are_months_that_are_looked_into(home: Pages) -> None:
    days = [date(2010, 1, 1) + timedelta(days=n) for n in range(4_000)]
    keys = [f"day={day}/store={store:02}" for day in days for store in range(15)]
    commit(home.world, built(home.world, keys), len(keys))
    with home.http() as http, counted(home.world) as reads:
        page = http.get(TAB)
        assert 0 < sum(reads) <= MOST_NODES
        assert "one cell is one month, or reaches back to the cell before" in page.text
        items = value(http)["ranges"]["items"]
        assert sum(one["partitions"] for one in items) == len(keys)
        assert len(items) <= squares(page.text) <= 12 * 11
        within = value(http, looked_into(items[5]))
    assert sum(one["partitions"] for one in within["ranges"]["items"]) >= items[5]["partitions"]
    assert within["axis"] == {"period": "day", "is_exact": True}


def test_400_partitions_of_a_few_days_have_a_square_each(home: Pages) -> None:
    days = [date(2013, 1, 1) + timedelta(days=n) for n in range(10)]
    keys = [f"day={day}/store={store}" for day in days for store in range(10)]
    commit(home.world, built(home.world, keys), len(keys))
    with home.http() as http:
        page = http.get(TAB).text
    corners = re.findall(r'data-last="[^"]*"><rect [^>]*(x="\d+" y="\d+")', page)
    assert len(set(corners)) == len(keys)
    assert "one cell is one partition" in page


def test_a_day_of_many_partitions_is_looked_into(home: Pages) -> None:
    keys = [f"day=2013-01-{day}/store={store:03}" for day in (10, 11) for store in range(250)]
    commit(home.world, built(home.world, keys), len(keys))
    with home.http() as http:
        first = value(http)["ranges"]["items"][0]
        assert first["partitions"] == 250
        within = value(http, looked_into(first))["ranges"]["items"]
    assert [part["partitions"] for part in within] == [1] * 250


def test_a_missing_partition_far_away_makes_no_endless_axis(home: Pages) -> None:
    days = [str(date(2023, 1, 1) + timedelta(days=n)) for n in range(100)]
    commit(home.world, built(home.world, days), len(days))
    with home.http() as http:
        page = http.get(f"{TAB}&colour=state").text
        assert "one cell is one day" in page
        answer = value(http)
    far = {**answer["partitions"]["items"][0], "partition": "9999-12-31", "fragment": None}
    answer["work"] = [{**far, "work": "to_do"}]
    cells = pictures.of_partitions(answer)
    assert (cells.period, len(cells.cells)) == (None, 101)


def test_what_generation_changed_is_outlined_in_its_week(home: Pages) -> None:
    days = [f"flown={date(2019, 1, 1) + timedelta(days=n)}" for n in range(2_000)]
    root = built(home.world, days)
    commit(home.world, root, len(days))
    commit(home.world, edited(home.world, root, days[100]), len(days))
    with home.http() as http, counted(home.world) as reads:
        page = http.get(f"{PATH}?gen=3").text
        assert 0 < sum(reads) <= MOST_NODES
    outlined = re.findall(r'aria-label="([^"]*)"[^>]*><rect class="c\d new', page)
    assert [words.partition(";")[0] for words in outlined] == ["2019-04-09 to 2019-04-15"]


def test_partitions_that_failed_are_missing_and_are_coloured(home: Pages) -> None:
    with home.http() as http:
        page = http.get("/datasets/shop.strict?tab=partitions").text
        assert "No generation is committed yet" in page
    home.world.put("2025-03-02.csv", (1, 30))
    with home.http() as http:
        assert "Missing" not in http.get("/datasets/shop.orders?tab=partitions").text
    home.world.refresh()
    assert home.world.work(), "it is listed"
    with home.http() as http:
        page = http.get("/datasets/shop.orders?tab=partitions&colour=state").text
    assert 'Missing: <a href="/datasets/shop.orders/partition?key=2025-03-02.csv">' in page
    assert page.count("w-to_do") == 2, "the cell, and the scale"


def test_a_page_says_that_more_partitions_have_work_than_it_marks(
    home: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in (2, 3):
        home.world.put(f"2025-03-{day:02}.csv", (day, 30))
    home.world.refresh()
    assert home.world.work(), "they are listed"
    path = "/datasets/shop.orders?tab=partitions"
    note = "Only the first partitions of this range that failed or are to be computed"
    with home.http() as http:
        assert note not in http.get(path).text
        monkeypatch.setattr(views, "WORK", 1)
        assert note in http.get(path).text
        assert note not in http.get(f"{path}&to=2025-01-05.csv").text


def typed(world: World, column: str, kind: str) -> None:
    """The newest generation has this column alone."""
    with world.store.begin() as tx:
        state = tx.states.newest("main", [DATASET])[DATASET]
        field: Field = {"name": column, "type": kind, "nullable": True, "metadata": {}}
        schema: StructType = {"type": "struct", "fields": [field]}
        tx.states.commit(replace(state, seq=state.seq + 1, schema=schema), state.seq)


@pytest.mark.parametrize(
    ("key", "column", "kind", "is_offered"),
    [
        ("flown={}", "flown", "date", True),
        ("flown={}", "flown", "string", True),
        ("flown={}", "flown", "long", False),  # as numbers they sort in another way than as keys
        ("flown={}", "landed", "date", False),
        ("flown={}/store=1", "flown", "date", False),
        ("{}.csv", "flown", "date", False),
    ],
)
def test_a_query_is_offered_where_keys_are_the_values_of_a_column(
    home: Pages, key: str, column: str, kind: str, is_offered: bool
) -> None:
    keys = [key.format(date(2019, 1, 1) + timedelta(days=n)) for n in range(30)]
    commit(home.world, built(home.world, keys), len(keys))
    typed(home.world, column, kind)
    with home.http() as http:
        assert ('formaction="/query"' in http.get(TAB).text) == is_offered


@pytest.mark.parametrize(
    ("bounds", "where"),
    [
        ({"from": "flown=2019-01-07", "to": "flown=2019-02-07"}, ("2019-01-07", "2019-02-07")),
        ({"to": "flown=2019-02-07"}, ("2019-02-07",)),
        ({"from": "2019-01-07.csv", "to": "flown=2019-02-07"}, ()),
        ({"from": "flown='; DROP", "to": ""}, ()),
    ],
)
def test_a_query_of_a_range_has_its_bounds(
    home: Pages, bounds: dict[str, str], where: tuple[str, ...]
) -> None:
    signs = (">", "<=")[-len(where) :]
    conditions = [f"\"flown\" {sign} '{end}'" for sign, end in zip(signs, where, strict=False)]
    expected = f"WHERE {' AND '.join(conditions)}\n" if where else ""
    with home.http() as http:
        query = http.get("/query.json", params={"table": DATASET, **bounds}).json()["sql"]
    assert query == f"SELECT *\nFROM {DATASET}\n{expected}LIMIT 100"


def test_hostile_keys_stay_texts(home: Pages) -> None:
    keys = sorted(f"\"><script>{n:04}</script>&to='x'" for n in range(500))
    commit(home.world, built(home.world, keys), len(keys))
    with home.http() as http:
        for query in ("?tab=partitions", f"?from={keys[3]}", f"?to={keys[9]}"):
            page = http.get(f"{PATH}{query}")
            assert page.status_code == 200
            assert "<script>0" not in page.text
        item = value(http)["ranges"]["items"][1]
        address = re.search(rf'href="{PATH}(\?from=[^"]+)"', http.get(TAB).text)
        assert address is not None
        found = value(http, address[1].replace("&amp;", "&").partition("#")[0])["ranges"]["items"]
        assert (found[0]["after"], found[-1]["last"]) == (item["after"], item["last"])


def test_a_range_that_one_looks_into_is_computed_again(home: Pages) -> None:
    commit(home.world, built(home.world, [f"{n:06}" for n in range(2_000)]), 2_000)
    with home.http() as http:
        page = http.get(f"{PATH}?tab=partitions&from=000100&to=000105")
        form = fields(page, "/actions/compute-range")
        assert http.post("/actions/compute-range", data=form, headers=OWN).status_code == 303
    with home.world.store.read() as tx:
        [forced] = tx.blueprints.forced_ranges().values()
    assert [forced.holds(key) for key in ("000100", "000101", "000105", "000106")] == [
        False,
        True,
        True,
        False,
    ]

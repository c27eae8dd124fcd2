"""How answers show themselves in a notebook: tables, links, chains of causes, charts and errors."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

import headgate
from controlplane.core.model.answers import WhyAnswer
from controlplane.core.model.answers.queries import QueryAnswer
from headgate import blueprint_values, query_chart, why_chain
from headgate.answer_cells import AnswerCells, when
from headgate.blueprint_values import UnknownPath
from headgate.page_links import PageLinks
from tests.unit.notebook.conftest import BLUEPRINT, HOSTILE
from tests.unit.records.world import Served

pytestmark = pytest.mark.unit
SERVICE = PageLinks("https://headgate.example.com", "try")


def test_dataflows_are_a_list_of_names_and_a_table_of_links(
    hg: headgate.Connection, place: Served
) -> None:
    assert list(hg.flows) == [flow.name for flow in hg] == ["shop"]
    shown = hg.flows._repr_html_()
    assert f'<a href="{place.url}/flows/shop"' in shown
    assert re.search(r'<td><span class="state">.*?●</span> \w', shown)
    assert '<td class="n">4</td>' in shown, "all rows of its datasets"


def test_an_api_of_our_own_has_no_links(hg: headgate.Connection) -> None:
    hg._session.service = None
    for value in (hg, hg.flows, hg["shop"], hg["shop.orders"], hg["shop.orders"].history()):
        assert "href" not in value._repr_html_()


@pytest.mark.parametrize("url", ["javascript:alert(1)//", "https://ops:secret@example.com"])
def test_an_address_that_is_no_page_or_has_a_password_is_no_link(url: str) -> None:
    assert PageLinks(url).of_dataset("shop.orders") == "shop.orders"


def test_cells_of_answers_are_counts_states_and_links() -> None:
    cells = AnswerCells(SERVICE, "shop.orders")
    address = "https://headgate.example.com/datasets/shop.orders"
    assert cells.cell("rows", 336776) == "336,776"
    assert cells.cell("revision", 1234) == "1234"
    assert ">up to date</span>" in cells.cell("state", "up_to_date").replace("</span> ", "</span>>")
    assert f'href="{address}?branch=try"' in cells.cell("name", "shop.orders")
    compared = f'href="{address}/compare?a=11&amp;b=12&amp;branch=try"'
    assert compared in cells.cell("generation", 12)
    assert cells.cell("generation", 1) == "1", "nothing is before it"
    assert "<script" not in cells.cell("state", HOSTILE) + cells.cell("dataflow", HOSTILE)
    assert cells.cell("late", True) == "True", "a truth value counts nothing"
    partition = "2026-99-99 00:00:00Z"
    assert cells.cell("partition", partition) == partition, "text of users may look like a time"


def test_a_time_is_relative_with_the_absolute_one_on_hover(hg: headgate.Connection) -> None:
    instant = (datetime.now(UTC) - timedelta(hours=2, minutes=5, seconds=30)).isoformat(
        timespec="seconds"
    )
    title = f"{instant[:10]} {instant[11:19]}Z"
    assert f'title="{title}">2 h 5 min ago</time>' in when(instant)
    later = datetime.now(UTC) + timedelta(hours=2, minutes=5, seconds=30)
    assert ">in 2 h 5 min</time>" in when(later.isoformat(timespec="seconds"))
    history = hg["shop.orders"].history()._repr_html_()
    assert history.count("<time ") == 2
    assert "Times are relative to " in history
    assert "Times are relative to " not in hg["shop.orders"].schema.to_string()


def test_rows_of_users_are_shown_as_they_are(hg: headgate.Connection) -> None:
    query = hg.query("SELECT 2013000 AS rows, 'failed' AS state, 'shop.orders' AS name")
    shown = query._repr_html_()
    assert '<td class="n">2013000</td><td>failed</td><td>shop.orders</td>' in shown


def test_a_dataflow_has_the_same_rows_once(hg: headgate.Connection, place: Served) -> None:
    shown = hg["shop"]._repr_html_()
    assert "<details><summary>Datasets</summary>" in shown
    assert f'<a href="{place.url}/datasets/shop.orders" target="_blank" rel="noopener"><g ' in shown
    assert " leads since " not in hg._repr_html_() + repr(hg.status())


def test_causes_are_a_chain_of_links() -> None:
    source = _cause("shop.orders", "a new file <b>", [])
    unchanged = {**_cause("shop.prices", "did not change", []), "cause": None}
    answer = cast(
        "WhyAnswer",
        {
            "dataset": "shop.total",
            "partition": None,
            "state": "up_to_date",
            "generation": 3,
            "sentence": "shop.orders changed",
            "reason": "",
            "held_up": None,
            "sources": [],
            "modes": {},
            "tree": _cause("shop.total", "shop.orders changed", [source, unchanged]),
        },
    )
    shown = why_chain.why_html(answer, SERVICE)
    chain = re.findall(r"<li><a [^>]*>([\w.]+)</a> <i>input</i>", shown)
    assert chain == ["shop.total", "shop.orders"]
    assert "a new file &lt;b&gt;, partition <code>a.csv</code> <time " in shown


def _cause(dataset: str, sentence: str, inputs: list[Any]) -> dict[str, Any]:
    return {
        "dataset": dataset,
        "cause": "input",
        "sentence": sentence,
        "pending": False,
        "repeated": False,
        "generation": 3,
        "at": "2026-11-24T21:00:00.000+00:00",
        "count": 1,
        "partitions": ["a.csv"],
        "inputs": inputs,
    }


def test_a_dataset_has_a_profile_and_a_difference(hg: headgate.Connection) -> None:
    orders = hg["shop.orders"]
    assert [column["name"] for column in orders.profile()["columns"]][:2] == ["k", "name"]
    assert "<script" not in orders.profile()._repr_html_()
    assert "partitions: 1 added; rows +2" in repr(orders.diff(1, 2))
    assert orders.diff(1)["rows"] == orders.at(2).diff(1)["rows"] == 2
    assert orders.at(2).diff(2)["state"] == "equal"
    with pytest.raises(headgate.Refused):
        orders.diff(1, 9)


def test_a_dataset_is_refreshed_and_a_dataflow_is_paused(hg: headgate.Connection) -> None:
    shop = hg["shop"]
    assert "changes" in hg["shop.orders"].refresh(wait_s=0.1).answer
    assert shop.pause()["paused"] is True
    assert shop.status()["dataflows"][0]["datasets"][0]["state"] == "paused"
    assert shop.resume()["paused"] is False
    assert shop.retry()["target"] == "shop"


def test_a_plan_of_other_values_leaves_the_file_as_it_is(
    hg: headgate.Connection, folder: Path
) -> None:
    file = Path("shop.yaml")
    file.write_text(BLUEPRINT)
    other = {"dear.transform.sql": "SELECT * FROM orders WHERE price > 9"}
    plan = hg.plan("shop.yaml", set=other, refresh=False, spark=False)
    assert [change["component"] for change in plan.answer["changes"]] == ["shop.dear"]
    assert file.read_text() == BLUEPRINT
    with pytest.raises(headgate.Refused, match=r"dear\.transform has no 'sq'; it has sql"):
        hg.plan("shop.yaml", set={"dear.transform.sq": 1})
    with pytest.raises(headgate.Refused, match="`set` takes one blueprint, not 2"):
        hg.plan("shop.yaml", "shop.yaml", set=other)


def test_a_value_is_replaced_in_its_place() -> None:
    params = "components:\n  a: # first\n    params: {late: 15, x: y} # kept\n"
    text = f"{params}    sql: |\n      SELECT 1\n    paused:\n"
    edited = blueprint_values.with_values(text, {"a.params.late": 30, "a.paused": True})
    assert edited == text.replace("15", "30").replace("paused:", "paused: true")
    assert blueprint_values.with_values(text, {"a.sql": "SELECT 'ü'"}) == text.replace(
        "|\n      SELECT 1", "\"SELECT 'ü'\""
    )
    with pytest.raises(UnknownPath, match="is not YAML"):
        blueprint_values.with_values("components: [", {"a": 1})
    with pytest.raises(UnknownPath, match="nested too deeply"):
        blueprint_values.with_values("[" * 5_000, {"a": 1})


def test_a_query_is_drawn_as_on_its_page(hg: headgate.Connection) -> None:
    query = hg.query("SELECT name, k FROM shop.orders ORDER BY k")
    shown = query.chart()._repr_html_()
    assert 'class="chart k-bar"' in shown
    assert shown.count("<rect ") == 4
    assert "<script" not in shown
    assert "All 4 rows." in shown
    assert query.limit(2).chart("line")._repr_html_().count("<circle ") == 2
    assert "The first 2 rows." in repr(query.limit(2).chart())
    assert "No column has numbers" in repr(hg.query("SELECT 'a' AS a").chart())
    with pytest.raises(headgate.Refused, match="bar, line, scatter"):
        query.chart(cast("Any", "pie"))
    with pytest.raises(headgate.Refused):
        hg.query("SELECT nothing FROM shop.orders").chart()


def test_a_chart_says_which_rows_it_leaves_out() -> None:
    columns = [{"name": "k", "type": "BIGINT"}, {"name": "v", "type": "BIGINT"}]
    answer = {"columns": columns, "rows": [[1, 2], [2, None]], "more": False}
    chart = query_chart.chart(cast("QueryAnswer", answer), "scatter")
    assert repr(chart) == "All 2 rows; 1 without a number in y is left out."
    answer["rows"] = [[1, None]]
    assert "No row has a number" in repr(query_chart.chart(cast("QueryAnswer", answer)))


def test_an_error_in_ipython_has_lines_of_the_user_alone(hg: headgate.Connection) -> None:
    with pytest.raises(headgate.Refused) as caught:
        hg["shop.nothing"]
    head, place = caught.value._render_traceback_()
    assert "shop has no dataset 'nothing'; it has orders, dear" in head
    assert place.endswith('hg["shop.nothing"]')
    shown = hg["shop.orders"].columns("nope")._repr_html_()
    assert '<pre class="error"><b>shop.orders</b><br>headgate: bad-columns: ' in shown

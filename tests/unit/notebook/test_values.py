"""Datasets and queries as lazy values: which rows, in which library, and how they show
themselves."""

from __future__ import annotations

import builtins
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import cast
from xml.etree import ElementTree

import duckdb
import pyarrow as pa
import pytest

import headgate
from controlplane.core.model.addresses import Generation
from controlplane.core.model.answers.explore import GraphAnswer
from controlplane.services.s3 import s3_addresses
from headgate import picture
from tests.unit.notebook.conftest import BLUEPRINT, HOSTILE
from tests.unit.records.world import Served

pytestmark = pytest.mark.unit
SVG = "{http://www.w3.org/2000/svg}"


def test_a_dataset_is_found_by_one_name_or_by_two(hg: headgate.Connection) -> None:
    assert hg.flows == ["shop"]
    assert repr(hg["shop"]["orders"]) == repr(hg["shop.orders"]) == "<dataset shop.orders>"
    assert repr(hg["shop.orders@1"]) == "<dataset shop.orders@1>"
    assert [repr(one) for one in hg["shop"]] == ["<dataset shop.orders>", "<dataset shop.dear>"]
    with pytest.raises(headgate.Refused, match="shop has no dataset 'order'; it has orders, dear"):
        hg["shop"]["order"]
    with pytest.raises(headgate.Refused) as refused:
        hg["other"]
    assert refused.value.code == "not-found"


def test_nothing_is_read_before_rows_are_wanted(hg: headgate.Connection, place: Served) -> None:
    before = len(place.world.rendered)
    wanted = hg["shop"]["orders"].at("@1").where("k > 1").columns("name", "price").limit(5)
    assert len(place.world.rendered) == before
    assert wanted.to_arrow().to_pylist() == [{"name": HOSTILE, "price": Decimal("2.50")}]
    assert len(place.world.rendered) == before + 1
    assert [f.name for f in wanted.schema] == ["name", "price"]


def test_conditions_add_up(hg: headgate.Connection) -> None:
    found = hg["shop.orders"].where("k = 1 OR k = 4").where("price < 2").columns("k")
    assert found.to_arrow().to_pylist() == [{"k": 1}, {"k": 4}]
    with pytest.raises(headgate.Refused) as refused:
        hg["shop.orders"].where("k = 'x'").to_arrow()
    assert "where:1:5:" in str(refused.value)


def test_each_library_gets_the_same_rows_with_their_types(hg: headgate.Connection) -> None:
    found = hg["shop.orders"]
    table = found.to_arrow()
    assert table.schema.field("price").type == pa.decimal128(12, 2)
    assert table.schema.field("day").type == pa.date32()
    assert found.to_polars().rows(named=True) == table.to_pylist()
    frame = found.to_pandas()
    assert (frame["price"][0], frame["day"][0]) == (Decimal("1.10"), date(2013, 1, 1))
    relation = found.to_duckdb(name="the rows")
    assert relation.fetchall() == [tuple(row.values()) for row in table.to_pylist()]
    assert relation.fetchall(), "it can be read again"
    with duckdb.connect() as connection:
        found.at(1).to_duckdb(connection, "orders")
        assert connection.execute("SELECT sum(price) FROM orders").fetchall() == [
            (Decimal("3.60"),)
        ]


def test_a_library_that_is_missing_is_named(
    hg: headgate.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "polars":
            raise ImportError("No module named 'polars'")
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(headgate.MissingPackage, match="pip install polars"):
        hg["shop.orders"].to_polars()


def test_cells_are_escaped(hg: headgate.Connection) -> None:
    shown = hg["shop.orders"]._repr_html_()
    assert "<script" not in shown
    assert "\x1b" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "<i>null</i>" in shown
    assert '<td class="n">2.50</td>' in shown
    assert "4 rows of shop.orders" in shown


def test_a_head_says_whether_there_is_more(hg: headgate.Connection) -> None:
    head = hg["shop.orders"].columns("k").head(2)
    assert (head.to_pylist(), head.has_more) == ([{"k": 1}, {"k": 2}], True)
    assert repr(head).startswith("the first 2 rows of shop.orders\n")
    assert not hg["shop.orders"].head(4).has_more


def test_a_value_that_cannot_be_read_tells_so_when_it_is_shown(hg: headgate.Connection) -> None:
    shown = hg["shop.dear"]._repr_html_()
    assert "no committed" in shown or "not-found" in shown
    with pytest.raises(headgate.Refused):
        hg["shop.dear"].to_arrow()


def test_a_query_is_a_lazy_value(hg: headgate.Connection) -> None:
    found = hg.query("SELECT k, price FROM shop.orders WHERE k > $least ORDER BY k", {"least": 2})
    assert found.to_arrow().to_pylist() == [
        {"k": 3, "price": Decimal("1.10")},
        {"k": 4, "price": Decimal("1.10")},
    ]
    assert found.limit(1).to_polars().height == 1
    assert found.schema.names == ["k", "price"]
    assert "2 rows of query SELECT k" in found._repr_html_()
    wrong = hg.query("SELECT <b> FROM shop.order")
    assert "&lt;b&gt;" in wrong._repr_html_()
    with pytest.raises(headgate.Refused, match=r"query-refused|unknown|syntax"):
        wrong.to_arrow()


def test_answers_show_themselves_as_the_command_line_does(hg: headgate.Connection) -> None:
    why = hg["shop.orders"].why()
    assert why["dataset"] == "shop.orders"
    assert repr(why).startswith("shop.orders is")
    assert re.search(r"<a [^>]*>shop.orders</a>", why._repr_html_())
    assert "shop.orders" in repr(hg["shop.dear"].lineage())
    assert [row["generation"] for row in hg["shop.orders"].history().answer["items"]] == [2, 1]
    assert "<th>" in hg._repr_html_()
    assert "shop.orders" in hg["shop"]._repr_html_()


def test_a_plan_shows_itself_and_is_applied_or_refused(
    hg: headgate.Connection, folder: Path
) -> None:
    edited = BLUEPRINT.replace("price > 2", "price > 3")
    plan = hg.plan(edited, refresh=False, spark=False)
    assert plan.is_work
    assert "shop.dear" in repr(plan)
    assert ">shop.dear</a></td>" in plan._repr_html_()
    other = hg.plan(edited.replace("> 3", "> 4"), refresh=False, spark=False)
    assert list(plan.apply()["revisions"]) == ["shop"]
    with pytest.raises(headgate.Refused) as moved:
        other.apply()
    assert moved.value.code == "plan-moved"
    assert not hg.plan(edited, refresh=False, spark=False).answer["changes"]


def test_a_refused_blueprint_tells_its_places(hg: headgate.Connection, folder: Path) -> None:
    Path("wrong.yaml").write_text(
        "dataflow: shop\ncomponents:\n  a: {transform: {sql: SELEC 1}}\n  b: {raed: {}}\n"
    )
    with pytest.raises(headgate.Refused) as refused:
        hg.plan("wrong.yaml", refresh=False, spark=False)
    lines = str(refused.value).splitlines()
    assert (lines[0].split(":")[:3], lines[-1].split(":")[:3]) == (
        ["wrong.yaml", "3", "24"],
        ["wrong.yaml", "4", "7"],
    )
    with pytest.raises(headgate.Refused, match=r"no\.yaml: No such file"):
        hg.plan("no.yaml")


def test_a_state_has_an_address_in_the_s3_view(hg: headgate.Connection) -> None:
    found = hg["shop.orders"]
    hg.client.create_branch("past")
    paths = [found, found.at(1), found.at("@2025-11-25T12:00:01Z"), found.branch("past").at(2)]
    read = [
        s3_addresses.split(f"{one.s3_path.removeprefix('default/')}/x.parquet") for one in paths
    ]
    tables = [(table.ref.branch, table.name, table.point) for table, _ in filter(None, read)]
    assert tables == [
        ("main", "shop.orders", None),
        ("main", "shop.orders", Generation(1)),
        ("main", "shop.orders", Generation(2)),
        ("past", "shop.orders", Generation(2)),
    ]


def test_the_bucket_is_the_namespace_of_the_token(
    hg: headgate.Connection, place: Served, folder: Path
) -> None:
    hg.client.create_namespace("team-a")
    token = hg.client.create_token("ada", namespace="team-a")["token"]
    with headgate.connect(url=place.url, token=token) as other:
        other.client.apply([{"name": str(folder / "shop.yaml"), "text": BLUEPRINT}])
        assert other["shop.orders"].s3_path == "team-a/main/shop/orders"
    with pytest.raises(headgate.Refused, match="there is no"):
        _ = hg.dataset("shop.nothing").s3_path


def test_a_branch_is_another_view(hg: headgate.Connection) -> None:
    hg.client.create_branch("try")
    assert repr(hg.branch("try")["shop.orders"]) == "<dataset shop.orders in try>"
    assert hg["shop.orders"].branch("try").to_arrow().num_rows == 4
    with pytest.raises(headgate.Refused):
        hg["shop.orders"].branch("none").to_arrow()


def test_a_dataflow_shows_its_graph_as_a_picture_of_its_own(hg: headgate.Connection) -> None:
    shown = hg["shop"]._repr_html_()
    svg = re.search("<svg.*?</svg>", shown)
    assert svg is not None
    root = ElementTree.fromstring(svg[0])
    titles = [one.text for one in root.iter(f"{SVG}title")]
    assert titles[0] == "shop.orders → shop.dear: partition by partition"
    assert [str(one).partition(":")[0] for one in titles[1:]] == ["shop.orders", "shop.dear"]
    assert "<th>" in shown, "the table stands below it"
    assert hg["shop"].graph().picture == svg[0]


def test_a_picture_needs_nothing_beside_it_and_escapes_what_it_shows(
    hg: headgate.Connection,
) -> None:
    found = hg["shop"].graph().answer
    first, *others = found["nodes"]
    hostile = {**first, "reason": HOSTILE, "dataflow": HOSTILE, "outside": True}
    svg = picture.graph(cast("GraphAnswer", {**found, "nodes": [hostile, *others]}))
    root = ElementTree.fromstring(svg)
    assert "<script>" in "".join(root.itertext())
    assert {one.tag.removeprefix(SVG) for one in root.iter()} == {
        "svg",
        "g",
        "title",
        "path",
        "rect",
        "text",
    }
    assert not {
        name
        for one in root.iter()
        for name in one.attrib
        if name in ("class", "href", "id") or name[:2] == "on"
    }
    grounds = {one.get("fill") for one in root.iter()} - {None, "none", "currentColor"}
    assert grounds <= set(picture.BAR.values()), "no box has a ground of its own"
    assert picture.graph(cast("GraphAnswer", {**found, "nodes": [first] * 301})) == ""

"""Sources on demand: how often they are listed follows from `freshness` downstream."""

from __future__ import annotations

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Desired, Source
from controlplane.core.compile.warnings import notices
from controlplane.core.model.revisions import Revision
from controlplane.core.model.sources import Listing
from controlplane.operations.work import listings

SHOP = """dataflow: shop
components:
  orders:
    read: {connector: files, path: /data, format: csv, schema: "k INT", refresh: REFRESH}
  daily: {freshness: 26h, transform: {sql: SELECT k FROM orders}}
"""
SALES = """dataflow: sales
components:
  rows: {transform: {sql: SELECT k FROM shop.orders}}
  live: {freshness: 1h, transform: {sql: SELECT k FROM rows}}
"""
PAUSED = SALES.replace("freshness: 1h", "freshness: 1h, paused: true")


def revision(text: str, number: int = 1) -> Revision:
    flow = text.partition(chr(10))[0].removeprefix("dataflow: ")
    return Revision("main", flow, number, text, {}, f"/{flow}.yaml", {}, "", "", 0.0)


def shop(refresh: str = "on_demand") -> Revision:
    return revision(SHOP.replace("REFRESH", refresh))


def orders(desired: Desired) -> Source:
    node = desired.nodes["shop.orders"]
    assert isinstance(node, Source)
    return node


@pytest.mark.parametrize(
    ("refresh", "sales", "every_s", "pulled_by"),
    [
        ("on_demand", SALES, 3600.0, "sales.live"),
        ("on_demand", PAUSED, 93_600.0, "shop.daily"),
        ("{min_interval: 2h}", SALES, 7200.0, "sales.live"),
        ("30s", SALES, 30.0, ""),
        ("manual", SALES, None, ""),
    ],
)
def test_the_most_demanding_goal_downstream_sets_the_interval(
    refresh: str, sales: str, every_s: float | None, pulled_by: str
) -> None:
    node = orders(compile_revisions([shop(refresh), revision(sales)]).require())
    assert (node.read.refresh_s, node.pulled_by) == (every_s, pulled_by)


QUARANTINED = """dataflow: shop
components:
  orders:
    read: {connector: files, path: /data, format: csv, schema: "k INT", refresh: on_demand}
    expect: [{name: positive, check: k > 0, on_fail: quarantine}]
  bad: {freshness: 2h, transform: {sql: SELECT k FROM orders__quarantine}}
"""


def test_readers_of_quarantined_rows_ask_for_the_one_listing() -> None:
    desired = compile_revisions([revision(QUARANTINED)]).require()
    node = orders(desired)
    assert (node.read.refresh_s, node.pulled_by) == (7200.0, "shop.bad")
    assert notices(desired) == ()
    undemanded = revision(QUARANTINED.replace("freshness: 2h, ", ""))
    assert len(notices(compile_revisions([undemanded]).require())) == 1


def test_a_paused_component_asks_for_nothing_on_behalf_of_its_readers() -> None:
    behind = SALES.replace("rows: {", "rows: {paused: true, ")
    node = orders(compile_revisions([shop(), revision(behind)]).require())
    assert node.pulled_by == "shop.daily"


def test_goals_of_dataflows_in_a_circle_are_a_problem_and_no_endless_loop() -> None:
    circular = SALES.replace("FROM shop.orders", "FROM shop.orders JOIN live USING (k)")
    codes = {p.code for p in compile_revisions([shop(), revision(circular)]).problems}
    assert "cycle" in codes


def test_a_source_is_due_once_the_goal_says_so() -> None:
    node = orders(compile_revisions([shop(), revision(SALES)]).require())
    listed = Listing(node.listing, None, 1000.0, 0, 0, requested=1, served=1)
    assert not listings.is_due(node, listed, 1000.0 + 3599, periodic=True)
    assert listings.is_due(node, listed, 1000.0 + 3600, periodic=True)


def test_another_goal_compiles_no_reader_again_and_changes_no_identity() -> None:
    first = compile_revisions([shop(), revision(SALES)]).require()
    later = compile_revisions([shop(), revision(PAUSED, 2)], before=first).require()
    assert later.nodes["shop.daily"] is first.nodes["shop.daily"]
    before, after = orders(first), orders(later)
    assert before.read.refresh_s != after.read.refresh_s
    identity = (before.listing, before.parse, before.logic, before.lineage)
    assert (after.listing, after.parse, after.logic, after.lineage) == identity
    same = compile_revisions([shop(), revision(PAUSED, 2)], before=later).require()
    assert orders(same) is after


def test_a_source_that_nobody_demands_is_a_notice() -> None:
    undemanded = revision(SHOP.replace("REFRESH", "on_demand").replace("freshness: 26h, ", ""))
    [notice] = notices(compile_revisions([undemanded]).require())
    assert (notice.code, notice.line) == ("undemanded-source", 3)
    assert notices(compile_revisions([shop()]).require()) == ()

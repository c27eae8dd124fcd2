"""`system.cost`: a view of the service among the tables of queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from controlplane.core.errors import InvalidBlueprint, NotFound, QueryRefused
from controlplane.core.model.revisions import Revision
from controlplane.core.rights import Principal, TokenScope, permissions_of
from controlplane.operations.desired import blueprints
from controlplane.operations.desired.blueprints import SentBlueprint
from controlplane.operations.inspect import spending
from controlplane.services.queries import queries
from controlplane.services.queries.queries import QueryRequest
from tests.store.examples import past
from tests.unit.diffs.world import rows
from tests.unit.queries.world import World, page_of, world_in

COST = "SELECT * FROM system.cost ORDER BY component, day"
SYSTEM = "dataflow: system\ncomponents:\n  cost: {transform: {sql: SELECT 1 AS n}}\n"


@pytest.fixture
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world_in(tmp_path_factory.mktemp("views")) as world:
        world.commit({"a": rows((1, "x"))})
        with world.store.begin() as tx:
            now = tx.now()
            datasets = ("shop.totals", "shop.totals", "shop.other")
            tx.past_attempts.put(
                [past(f"a{n}", dataset=name, ended_at=now) for n, name in enumerate(datasets)]
            )
        yield world


def test_the_view_has_the_figures_of_the_cost(world: World) -> None:
    answer = world.ask(COST)
    names = [column["name"] for column in answer["columns"]]
    view = [dict(zip(names, row, strict=True)) for row in answer["rows"]]
    table = spending.cost(world.ctx, "main", spending.LONGEST_DAYS, None, 100)["components"]["rows"]
    assert {row["component"] for row in view} == {"totals", "other"}
    for row in table:
        [same] = [one for one in view if f"{one['dataflow']}.{one['component']}" == row["name"]]
        assert {name: same[name] for name in row if name != "name"} == {
            name: value for name, value in row.items() if name != "name"
        }


def test_new_attempts_make_another_result(world: World) -> None:
    first = world.ask(COST)
    assert world.ask(COST)["cached"]
    with world.store.begin() as tx:
        tx.past_attempts.put([past("b", dataset="shop.totals", ended_at=tx.now())])
    second = world.ask(COST)
    assert (second["result"] != first["result"], second["cached"]) == (True, False)


def test_a_token_reads_only_what_is_about_its_datasets(world: World) -> None:
    scope = TokenScope(datasets=("shop.other",))
    narrow = replace(world.ctx, principal=Principal(permissions_of(["data"]), scope))
    own = queries.answer(narrow, world.queries, "main", QueryRequest(COST)).answer()
    assert [row[1] for row in own["rows"]] == ["other"]
    everything = world.ask(COST)["result"]
    with pytest.raises(NotFound):
        page_of(narrow, world.queries, everything, 0, 10)
    assert page_of(narrow, world.queries, own["result"], 0, 10)["rows"] == own["rows"]


@pytest.mark.parametrize("table", ["system.other", 'system."cost@1"', "system.cost@2"])
def test_there_is_no_other_table_of_the_service(world: World, table: str) -> None:
    with pytest.raises(QueryRefused):
        world.ask(f"SELECT * FROM {table}")


def test_its_dataflow_is_refused_unless_it_is_stored(world: World) -> None:
    sent = [SentBlueprint("/system.yaml", SYSTEM, {})]
    [problem] = blueprints.validate(sent).problems
    assert (problem.code, problem.line, problem.column) == ("invalid-name", 1, 11)
    with pytest.raises(InvalidBlueprint):
        blueprints.apply(world.ctx, "main", sent)
    stored = Revision("main", "system", 1, SYSTEM, {}, "/system.yaml", {"cost": "u1"}, "", "", 0.0)
    with world.store.begin() as tx:
        tx.blueprints.put(stored, 0)
    edited = SentBlueprint("/system.yaml", SYSTEM.replace("1 AS n", "2 AS n"), {})
    assert blueprints.apply(world.ctx, "main", [edited])["revisions"] == {"system": 2}

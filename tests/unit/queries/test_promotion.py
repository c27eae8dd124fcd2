"""A query as a proposed transform, and a transform as a query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core.errors import InvalidBlueprint, NotFound, QueryRefused
from controlplane.core.merging.adding import with_transform
from controlplane.core.model.answers.promotion import PromotionAnswer
from controlplane.core.rights import Principal, TokenScope, permissions_of
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, promotion
from controlplane.operations.desired.drafts import SentBlueprint
from tests.stores import new_store

SHOP = """\
# what there is
dataflow: shop
components:
    orders:   # as they come
        read: {connector: files, path: /data/*.csv, format: csv, schema: "id INT, price INT"}
    dear:
        transform: {sql: SELECT * FROM orders WHERE price > 100}
    py:
        transform: {python: "def transform(orders):\\n    return orders\\n", inputs: {orders: each}}
description: a shop
"""
SQL = "SELECT id,\n       price * 2 AS twice\n\nFROM shop.orders o -- all\nWHERE o.price > 3;\n"


@pytest.fixture
def ctx() -> Context:
    ctx = Context(new_store())
    blueprints.apply(ctx, "main", [SentBlueprint("/shop.yaml", SHOP, {})])
    return ctx


def applied(ctx: Context, found: PromotionAnswer) -> str:
    """The text that a transform has once the proposal is applied."""
    blueprints.apply(ctx, "main", [SentBlueprint(found["file"], found["text"], {})])
    opened: str = promotion.opened(ctx, "main", found["dataset"])["sql"]
    return opened


def test_a_component_more(ctx: Context) -> None:
    found = promotion.promote(ctx, "main", SQL, "shop.twice")
    assert found["text"] == SHOP.replace(
        "description: a shop",
        """
    twice:
      transform:
        sql: |
          SELECT id,
                 price * 2 AS twice

          FROM orders o -- all
          WHERE o.price > 3
description: a shop""",
    )
    assert (found["file"], found["revision"]) == ("/shop.yaml", 1)
    assert found["inputs"]["orders"]["mode"] == "each"
    assert found["inputs"]["orders"]["reason"]
    with ctx.store.read() as tx:
        assert tx.blueprints.revisions("main")["shop"].number == 1  # nothing was stored


def test_there_and_back(ctx: Context) -> None:
    found = promotion.promote(ctx, "main", SQL, "shop.twice")
    assert (
        applied(ctx, found)
        == "SELECT id,\n       price * 2 AS twice\n\nFROM shop.orders o -- all\nWHERE o.price > 3\n"
    )


def test_a_new_dataflow_reads_another_one(ctx: Context) -> None:
    found = promotion.promote(
        ctx, "main", "SELECT count(*) AS n FROM main.shop.orders", "report.counts"
    )
    assert found["revision"] == 0
    assert found["inputs"]["shop.orders"]["mode"] == "all"
    assert "shop.orders" in applied(ctx, found)


@pytest.mark.parametrize(
    ("sql", "line", "column", "words"),
    [
        ("SELECT *\nFROM shop.orders@2", 2, 6, "leave out the @"),
        ("SELECT *\nFROM dev.shop.orders", 2, 6, "its own branch"),
        ("SELECT *\nFROM `shop`.`orders@2`", 2, 6, "leave out the @"),
        ("SELECT * FORM shop.orders", 1, 10, "FROM"),
        ("DELETE FROM shop.orders", 1, 1, "SELECT"),
    ],
)
def test_what_is_no_transform(ctx: Context, sql: str, line: int, column: int, words: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        promotion.promote(ctx, "main", sql, "shop.twice")
    (problem,) = refused.value.problems
    assert (problem.line, problem.column) == (line, column)
    assert words in f"{problem.message} {problem.hint}"


def test_columns_stay_qualified(ctx: Context) -> None:
    text = "SELECT shop.orders.id, d.price FROM shop.orders JOIN shop.dear d ON d.id = orders.id"
    component = promotion.promote(ctx, "main", text, "shop.both")["component"]
    assert "SELECT orders.id, d.price FROM orders JOIN dear d ON d.id = orders.id" in component


def test_problems_of_the_whole_are_told(ctx: Context) -> None:
    with pytest.raises(InvalidBlueprint):
        promotion.promote(ctx, "main", "SELECT * FROM shop.nothing", "shop.twice")
    with pytest.raises(InvalidBlueprint):
        promotion.promote(ctx, "main", "SELECT * FROM shop.orders", "shop.dear")


def test_components_in_one_line_are_left_to_the_user(ctx: Context, tmp_path: Path) -> None:
    text = 'dataflow: one\ncomponents: {x: {read: {connector: files, path: /d/*.csv, format: csv, schema: "k INT"}}}\n'
    blueprints.apply(ctx, "main", [SentBlueprint("/one.yaml", text, {})])
    with pytest.raises(QueryRefused) as refused:
        promotion.promote(ctx, "main", "SELECT * FROM one.x", "one.y")
    assert "sql: |" in refused.value.problems[0].hint


def test_a_text_without_an_end_of_line() -> None:
    found = with_transform(
        "dataflow: a\ncomponents:\n  x:\n    transform: {sql: SELECT 1}", "y", "SELECT 2"
    )
    assert found == (
        "dataflow: a\ncomponents:\n  x:\n    transform: {sql: SELECT 1}\n\n"
        "  y:\n    transform:\n      sql: |\n        SELECT 2\n"
    )


def test_parameters_of_a_transform_come_along(ctx: Context) -> None:
    text = SHOP.replace("price > 100}", "price > :least, params: {least: 100}}")
    blueprints.apply(ctx, "main", [SentBlueprint("/shop.yaml", text, {})])
    found = promotion.opened(ctx, "main", "shop.dear")
    assert (found["sql"].split("WHERE ")[1], found["parameters"]) == (
        "price > :least",
        {"least": 100},
    )


def test_what_cannot_be_opened(ctx: Context) -> None:
    assert promotion.opened(ctx, "main", "shop.dear")["sql"].startswith(
        "SELECT * FROM shop.orders WHERE"
    )
    for dataset in ("shop.py", "shop.orders"):
        with pytest.raises(QueryRefused, match="not made by SQL"):
            promotion.opened(ctx, "main", dataset)
    with pytest.raises(NotFound):
        promotion.opened(ctx, "main", "shop.none")


def test_who_sees_a_part_of_a_dataflow_gets_no_text_of_it(ctx: Context) -> None:
    within = TokenScope(datasets=("shop.o*",))
    partly = replace(ctx, principal=Principal(permissions_of(["view"]), within))
    with pytest.raises(NotFound, match="no dataflow shop that you see whole"):
        promotion.promote(partly, "main", SQL, "shop.others")


@pytest.mark.parametrize("hidden", ["shop.dear", "shop.nothing"])
def test_hidden_inputs_are_refused_whether_there_or_not(ctx: Context, hidden: str) -> None:
    within = TokenScope(datasets=("report.*",))
    other = replace(ctx, principal=Principal(permissions_of(["view"]), within))
    with pytest.raises(QueryRefused, match=f"there is no dataset {hidden} that you see"):
        promotion.promote(other, "main", f"SELECT * FROM {hidden}", "report.copy")


def test_looks_at_one_edit_ask_the_same_of_spark(ctx: Context) -> None:
    """Also of a component whose rows hang on an order, which is told from others by its uid."""
    sql = "SELECT *, row_number() OVER (ORDER BY price) AS place FROM shop.orders"
    proposal = promotion.propose(ctx, "main", sql, "shop.places")
    first, second = (blueprints.questions(ctx, "main", proposal.sources) for _ in range(2))
    assert [wish.task.key for wish in first] == [wish.task.key for wish in second]
    assert "shop.places" in {wish.task.dataset for wish in first}


def test_without_an_answer_of_spark_s_the_columns_are_guessed(ctx: Context) -> None:
    proposal = promotion.propose(ctx, "main", SQL, "shop.twice")
    found = promotion.analysis(ctx, "main", proposal, "nobody asked")
    assert found["columns"] == [{"name": "id", "type": "INT"}, {"name": "twice", "type": "INT"}]
    assert (found["schema_from"], found["schema_unknown"], found["breaks"]) == (
        "sqlglot",
        "nobody asked",
        [],
    )

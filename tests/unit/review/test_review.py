"""What an edit changes and breaks, by what is known without Spark, and by what Spark has said.

Does not belong here: how the answer is shown (tests/unit/cli), and which tasks run
(tests/unit/plan).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from controlplane.core.model.memos import Memo
from controlplane.core.model.tasks import Task
from controlplane.core.review import AnalyseRequest, ComponentReview, Review, review
from controlplane.core.schema.ddl_schemas import parse_ddl
from dataplane.contract.results import task_error
from tests.unit.plan.facts import Facts

SHOP = """\
dataflow: shop
components:
  orders:
    read:
      {connector: files, path: /data, format: csv, options: {header: true}, schema_change: fail,
       schema: "id INT, place STRING, price INT"}
  dear:
    description: what costs much
    transform:
      sql: |
        SELECT id, place, price
        FROM orders WHERE price > 100
    expect:
      - {name: has price, check: price > 0}
      - {name: once, unique: [id]}
  spent:
    transform:
      sql: |
        SELECT place,
               sum(price) AS price
        FROM dear GROUP BY place
  all_dear:
    transform: {sql: SELECT * FROM dear WHERE id > 3}
  most:
    transform: {sql: "SELECT max(D.Price) AS most FROM all_dear d"}
  named:
    transform: {sql: "SELECT a.id FROM orders a JOIN dear USING (price)"}
  table:
    write: {connector: jdbc, from: dear, url: secret://shop/url, table: public.dear}
"""
OTHER = """\
dataflow: other
components:
  far: {transform: {sql: SELECT avg(price) AS mean FROM shop.dear}}
"""


class Known(Facts):
    """With what Spark's analyzer was asked. `lookups`: how many keys each look-up had."""

    def __init__(self) -> None:
        super().__init__()
        self.lookups: list[tuple[str, int]] = []

    def tasks(self, keys: Sequence[bytes]) -> Mapping[bytes, Task]:
        self.lookups.append(("tasks", len(keys)))
        return super().tasks(keys)

    def answers(self, keys: tuple[bytes, ...]) -> Mapping[bytes, Memo]:
        self.lookups.append(("answers", len(keys)))
        return {key: self.memos[key] for key in keys if key in self.memos}


def reviewed(before: str, after: str, *others: str, facts: Known | None = None) -> Review:
    facts = facts or Known()
    facts.apply(before, *others)
    old = facts.desired
    facts.apply(after, *others)
    return review(old, facts.desired, facts)


def without_price(text: str = SHOP) -> str:
    return text.replace("SELECT id, place, price\n", "SELECT id, place\n")


def breaks(found: Review) -> list[str]:
    return [str(one.problem).partition(" (")[0].removeprefix("/a.yaml:") for one in found.breaks]


def refused(wish: AnalyseRequest, message: str, column: int) -> Task:
    """The question as Spark answers it with an error."""
    error = task_error("user", "UNRESOLVED_COLUMN", message)
    error["line"], error["column"] = 1, column
    return replace(wish.task, state="failed", error=error)


def change(found: Review, dataset: str) -> ComponentReview:
    return next(c for c in found.changes if c.dataset == dataset)


def test_a_removed_column_breaks_readers_targets_and_checks_at_their_places() -> None:
    found = reviewed(SHOP, without_price(), OTHER)
    assert breaks(found) == [
        "3:37: edit-breaks-reader: other.far reads avg(price) of shop.dear, which has it no more",
        "14:34: edit-breaks-check: the check 'has price' of shop.dear looks at price, which is no column any more",
        "27:66: edit-breaks-reader: shop.named reads price of shop.dear, which has it no more",
        "20:20: edit-breaks-reader: shop.spent reads sum(price) of shop.dear, which has it no more",
        "28:3: edit-breaks-target: shop.table does not take what shop.dear becomes: without price;"
        " schema_change is fail",
        "25:36: edit-breaks-reader: shop.most reads max(price) of shop.all_dear, which has it no more",
    ]
    dear = change(found, "shop.dear")
    assert (dear.kind, dear.impact, dear.logic, dear.origin) == (
        "logic",
        "breaking",
        ("the query",),
        "sqlglot",
    )
    assert dear.columns.removed == ("price",)
    follows = change(found, "shop.all_dear")
    assert (follows.kind, follows.impact, follows.logic, follows.text_diff) == (
        "columns",
        "breaking",
        (),
        "",
    )


def test_a_reader_that_is_edited_along_breaks_nothing() -> None:
    after = without_price().replace("max(D.Price)", "max(D.id)").replace("sum(price)", "sum(id)")
    after = after.replace("USING (price)", "USING (id)").replace(
        "check: price > 0", "check: id > 0"
    )
    after = after.replace("url: secret", "schema_change: recreate, url: secret")
    assert reviewed(SHOP, after).breaks == ()


def test_a_removed_unique_column_is_missed_by_its_check() -> None:
    found = reviewed(SHOP, SHOP.replace("SELECT id, place, price\n", "SELECT place, price\n"))
    told = "15:9: edit-breaks-check: the check 'once' of shop.dear looks at id, which is no column any more"
    assert told in breaks(found)


def test_more_columns_are_widening() -> None:
    recreating = SHOP.replace("url: secret", "schema_change: alter, url: secret")
    found = reviewed(
        recreating,
        recreating.replace("SELECT id, place, price\n", "SELECT id, place, price, 1 AS one\n"),
    )
    assert [(c.dataset, c.impact, c.columns.added) for c in found.changes] == [
        ("shop.dear", "widening", ("one",)),
        ("shop.all_dear", "widening", ("one",)),
    ]
    assert found.breaks == ()


@pytest.mark.parametrize(
    ("edit", "kind", "impact", "logic"),
    [
        (("price > 100", "price > 200"), "logic", "neutral", ("the query",)),
        (("what costs much", "what costs more"), "text", "neutral", ()),
        (
            ("FROM orders WHERE", "FROM orders  -- all of them\n        WHERE"),
            "text",
            "neutral",
            (),
        ),
    ],
)
def test_the_kind_of_an_edit(
    edit: tuple[str, str], kind: str, impact: str, logic: tuple[str, ...]
) -> None:
    [found] = reviewed(SHOP, SHOP.replace(*edit)).changes
    assert (found.dataset, found.kind, found.impact, found.logic) == (
        "shop.dear",
        kind,
        impact,
        logic,
    )
    assert found.text_diff.startswith("--- /a.yaml\n+++ /a.yaml\n@@ -")


def test_a_text_difference_has_the_lines_of_the_file() -> None:
    [found] = reviewed(SHOP, SHOP.replace("price > 100", "price > 200")).changes
    assert found.text_diff.splitlines()[2:] == [
        "@@ -9,7 +9,7 @@",
        "     transform:",
        "       sql: |",
        "         SELECT id, place, price",
        "-        FROM orders WHERE price > 100",
        "+        FROM orders WHERE price > 200",
        "     expect:",
        "       - {name: has price, check: price > 0}",
        "       - {name: once, unique: [id]}",
    ]


def test_a_number_that_becomes_a_text_breaks_and_a_wider_number_does_not() -> None:
    def typed(kind: str) -> Review:
        return reviewed(
            SHOP, SHOP.replace("price INT", f"price {kind}").replace("fail,\n", "fail,\n")
        )

    assert "6:" not in breaks(typed("BIGINT"))
    wider = change(typed("BIGINT"), "shop.orders")
    assert (wider.impact, wider.logic, wider.origin) == ("widening", ("schema",), "declared")
    other = typed("STRING")
    assert change(other, "shop.orders").impact == "breaking"
    told = "12:27: edit-breaks-reader: shop.dear reads price of shop.orders, which becomes STRING"
    assert told in breaks(other)


def test_a_blueprint_from_another_path_is_the_same_blueprint() -> None:
    facts = Known()
    facts.apply(SHOP)
    old = facts.desired
    facts.apply(SHOP.replace("price > 100", "price > 200"), file="/b.yaml")
    [found] = review(old, facts.desired, facts).changes
    assert found.text_diff.startswith("--- /b.yaml\n+++ /b.yaml\n@@ -9,7 +9,7 @@")


def test_added_and_removed_components_are_told() -> None:
    less = SHOP[: SHOP.index("  table:")]
    assert [(c.dataset, c.kind) for c in reviewed(less, SHOP).changes] == [("shop.table", "added")]
    assert [(c.dataset, c.kind) for c in reviewed(SHOP, less).changes] == [
        ("shop.table", "removed")
    ]


def test_parameters_and_modes_are_told_by_name() -> None:
    before = SHOP.replace(
        "{sql: SELECT * FROM dear WHERE id > 3}",
        "{sql: SELECT * FROM dear WHERE id > :n, params: {n: 3}}",
    )
    after = before.replace("n: 3}", "n: 4}, inputs: {dear: all}")
    assert change(reviewed(before, after), "shop.all_dear").logic == (
        "params.n: 3 -> 4",
        "inputs.dear: each -> all",
    )


def test_python_code_is_unknown_until_spark_has_said() -> None:
    code = '  py: {transform: {python: "def transform(dear):\\n    return dear\\n", inputs: {dear: all}}}\n'
    found = reviewed(SHOP + code, SHOP + code.replace("return dear", "return dear.limit(3)"))
    [py] = found.changes
    assert (py.kind, py.impact, py.origin) == ("logic", "unknown", "unknown")
    assert py.why_unknown == "the columns of Python code are known once Spark has run it"


# --- what Spark says ------------------------------------------------------------------------------


def test_spark_is_asked_in_order_and_its_answers_count() -> None:
    facts = Known()
    first = reviewed(SHOP, without_price(), facts=facts)
    [wish] = first.requests
    assert wish.task.dataset == "shop.dear"
    facts.memos[wish.task.key] = {"schema": parse_ddl("id INT, place STRING")}
    second = reviewed(SHOP, without_price(), facts=facts)
    assert change(second, "shop.dear").origin == "spark"
    assert sorted(w.task.dataset for w in second.requests) == [
        "shop.all_dear",
        "shop.named",
        "shop.spent",
    ]


def test_transforms_of_one_layer_share_their_look_ups() -> None:
    facts = Known()
    nothing = "dataflow: shop\ncomponents: {}\n"
    [wish] = reviewed(nothing, SHOP, facts=facts).requests
    assert facts.lookups == [("answers", 1), ("tasks", 1)]
    facts.memos[wish.task.key] = {"schema": parse_ddl("id INT, place STRING, price INT")}
    facts.lookups.clear()
    wishes = reviewed(nothing, SHOP, facts=facts).requests
    assert [w.task.dataset for w in wishes] == ["shop.all_dear", "shop.named", "shop.spent"]
    assert facts.lookups == [("answers", 1), ("answers", 3), ("tasks", 3)]


def test_what_spark_accepts_does_not_break_and_what_it_refuses_does() -> None:
    facts = Known()
    for _ in range(4):
        for wish in reviewed(SHOP, without_price(), facts=facts).requests:
            if wish.task.dataset == "shop.named":
                facts.queue[wish.task.key] = refused(wish, "no column `price`\nmore", column=50)
            else:
                facts.memos[wish.task.key] = {"schema": parse_ddl("id INT, place STRING")}
    told = breaks(reviewed(SHOP, without_price(), facts=facts))
    assert not [line for line in told if "shop.spent" in line]
    assert [line for line in told if "shop.named" in line] == [
        "27:66: edit-breaks-reader: shop.named reads price of shop.dear, which has it no more"
    ]


def test_an_edit_that_spark_refuses_breaks_itself() -> None:
    facts = Known()
    after = SHOP.replace("SELECT id, place, price\n", "SELECT id, plaice AS place, price\n")
    [wish] = reviewed(SHOP, after, facts=facts).requests
    facts.queue[wish.task.key] = refused(
        wish, "no column `plaice`, did you mean `place`?", column=12
    )
    found = reviewed(SHOP, after, facts=facts)
    assert breaks(found) == [
        "11:20: edit-breaks-itself: shop.dear: Spark refuses it [UNRESOLVED_COLUMN]: no column `plaice`, did you mean"
        " `place`?"
    ]

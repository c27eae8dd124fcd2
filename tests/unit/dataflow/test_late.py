"""Blueprints with late rows: what is refused, and what a topic is written out as."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Node
from controlplane.core.errors import Problem
from controlplane.core.model.event_times import EventTime
from controlplane.core.model.revisions import Revision
from controlplane.core.plan.transform.late_slices import column_error
from dataplane.contract.schemas import field_of, struct_of

TEXT = """\
dataflow: shop
components:
  orders:
    read:
      connector: kafka
      servers: broker:9092
      topic: orders
      schema: "shop STRING, at TIMESTAMP"
      event_time: {column: at, delay: 10m, idle: 1m}
      late: drop
    expect: [{check: shop <> '', on_fail: drop}]
  late_orders:
    transform: {sql: SELECT * FROM orders_messages}
"""
RULE = "{column: at, delay: 10m, idle: 1m}"
BY_HAND = f"    expect: [{{late: {RULE}, on_fail: quarantine}}]\n"
FILES = "connector: files\n      path: /s/*.csv\n      format: csv\n"
WRONG = [
    ("late: drop", "late: never", "invalid-value", "never"),
    (f"      event_time: {RULE}\n", "", "conflicting-keys", "needs the key 'event_time'"),
    ('schema: "shop STRING, at TIMESTAMP"', "format: raw", "conflicting-keys", "not raw"),
    ("column: at", "column: shop", "invalid-value", "'shop' is no column of type"),
    ("  other:", "  orders_messages:", "name-clash", "orders_messages"),
    ("late: drop", "late: keep\n    expect: [{late: {column: at}}]", "conflicting-keys", "late"),
]
WRONG_BY_HAND = [
    ("delay: 10m", "delay: 5m", "conflicting-keys", "by the rule of its event_time"),
    ("{sql: SELECT *", "{sql: SELECT shop", "conflicting-keys", "a topic as it is"),
    ("FROM orders_messages", "FROM orders", "conflicting-keys", "a topic as it is"),
    ("on_fail: quarantine", "on_fail: warn", "conflicting-keys", "dropped, quarantined, or fail"),
    ("on_fail: quarantine", "threshold: 0.1", "conflicting-keys", "a share of rows"),
]


def _compiled(text: str) -> tuple[Mapping[str, Node], list[Problem]]:
    revision = Revision("main", "shop", 1, text, {}, "/work/shop.yaml", {}, "ann", "r", 0.0)
    compiled = compile_revisions([revision])
    return compiled.desired.nodes, list(compiled.problems)


def _nodes(text: str) -> Mapping[str, Node]:
    nodes, problems = _compiled(text)
    assert not problems
    return nodes


@pytest.mark.parametrize(("old", "new", "code", "words"), WRONG)
def test_what_means_nothing_is_refused(old: str, new: str, code: str, words: str) -> None:
    head, _, _ = TEXT.partition("    expect:")
    text = f"{head}  other: {{transform: {{sql: SELECT 1 AS a}}}}\n"
    assert old in text
    _, problems = _compiled(text.replace(old, new))
    assert [problem.code for problem in problems] == [code]
    assert words in problems[0].message


@pytest.mark.parametrize(("old", "new", "code", "words"), WRONG_BY_HAND)
def test_an_expectation_of_late_rows_is_of_a_whole_topic(
    old: str, new: str, code: str, words: str
) -> None:
    head, tail = (TEXT + BY_HAND).split("  late_orders:")
    assert old in tail
    _, problems = _compiled(f"{head}  late_orders:{tail.replace(old, new)}")
    assert [problem.code for problem in problems] == [code]
    assert words in problems[0].message


def test_sources_without_an_order_have_no_late_rows() -> None:
    text = TEXT.replace(
        "connector: kafka\n      servers: broker:9092\n      topic: orders\n", FILES
    )
    _, problems = _compiled(text.replace(f"      event_time: {RULE}\n", ""))
    assert problems[0].code == "unknown-key"
    assert "'late'" in problems[0].message


def test_a_topic_is_written_out() -> None:
    nodes = _nodes(TEXT + BY_HAND)
    messages, orders = nodes["shop.orders_messages"], nodes["shop.orders"]
    assert messages.is_source
    assert messages.read.keeps_late_rows
    assert not messages.checks
    assert orders.is_transform
    assert [check.name for check in orders.checks] == ["late", "shop <> ''"]
    assert [slot.mode for slot in orders.slots] == ["each"]
    quarantine = nodes["shop.late_orders__quarantine"]
    assert quarantine.is_transform
    assert quarantine.late == orders.late


def test_which_rows_are_late_is_logic() -> None:
    orders = _nodes(TEXT)["shop.orders"]
    logics = {orders.lineage}
    for old, new in (("10m", "5m"), ("late: drop", "late: quarantine"), ("drop", "fail")):
        changed = _nodes(TEXT.replace(old, new, 1))
        logics.add(changed["shop.orders"].lineage)
        # Messages are read once for all of them
        before = _nodes(TEXT)["shop.orders_messages"]
        assert changed["shop.orders_messages"].lineage == before.lineage
    assert len(logics) == 4


def test_columns_of_a_registry_have_to_have_the_event_time() -> None:
    rule = EventTime("at", 0, None, 0)
    for kind in ("timestamp", "timestamp_ntz"):
        assert column_error(rule, struct_of([field_of("at", kind)])) is None
    for field in (field_of("at", "long"), field_of("seen", "timestamp")):
        error = column_error(rule, struct_of([field]))
        assert error is not None
        assert error["condition"] == "invalid-value"


def test_keeping_late_rows_measures_all_slices() -> None:
    """Slices that were read before event times were measured are read again; else nothing is."""
    head, _, _ = TEXT.partition("    expect:")
    kept = _nodes(head)["shop.orders_messages"]
    correct = _nodes(head.replace("late: drop", "late: correct"))["shop.orders"]
    without = _nodes(head.replace("      late: drop\n", ""))["shop.orders"]
    assert correct.lineage == without.lineage
    assert correct.lineage != kept.lineage

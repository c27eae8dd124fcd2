"""Blueprints with `on_bad_record: quarantine`: what is refused, and which dataset they make."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controlplane.core.compile import compiled_checks, connector_identity
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Node, Source
from controlplane.core.errors import Problem
from controlplane.core.model.revisions import Revision
from dataplane.contract.schemas import NO_COLUMNS, column_names

FILES = "connector: files, path: /s/*.csv, format: csv"
TOPIC = "connector: kafka, servers: 'b:9092', topic: orders"
DECLARED = "schema: 'id INT, at TIMESTAMP'"
LATE = "event_time: {column: at}, late: quarantine"
ON_TIME = "\n    expect: [{check: id > 0, on_fail: drop}]"
WRONG = [
    (f"{FILES[:-3]}parquet", "", "conflicting-keys", "parquet has no single bad record"),
    (f"{FILES[:-3]}avro", "", "conflicting-keys", "avro has no single bad record"),
    (f"{TOPIC}, format: raw", "", "conflicting-keys", "says nothing of raw values"),
    ("connector: delta, path: /s/t", "", "unknown-key", "on_bad_record"),
    (FILES, "\n    expect: [{check: id > 0, name: bad_record}]", "invalid-value", "bad_record"),
]


def compiled(
    read: str, more: str = "", word: str = "quarantine"
) -> tuple[Mapping[str, Node], list[Problem]]:
    text = f"dataflow: shop\ncomponents:\n  orders:\n    read: {{{read}, on_bad_record: {word}}}"
    revision = Revision(
        "main", "shop", 1, f"{text}{more}\n", {}, "/work/shop.yaml", {}, "ann", "r", 0.0
    )
    compilation = compile_revisions([revision])
    return compilation.desired.nodes, list(compilation.problems)


def source(nodes: Mapping[str, Node], dataset: str) -> Source:
    node = nodes[dataset]
    assert isinstance(node, Source)
    return node


@pytest.mark.parametrize(("read", "more", "code", "words"), WRONG)
def test_what_cannot_be_quarantined_is_refused(read: str, more: str, code: str, words: str) -> None:
    _, problems = compiled(read, more)
    assert [problem.code for problem in problems] == [code]
    assert words in problems[0].message


@pytest.mark.parametrize(
    ("read", "columns"),
    [
        (FILES, ("_reason", "_record", "_file")),
        (f"{TOPIC}, {DECLARED}", ("_reason", "_record")),
    ],
)
def test_bad_records_are_a_dataset_of_their_own(read: str, columns: tuple[str, ...]) -> None:
    nodes, problems = compiled(read, ON_TIME)
    assert not problems
    orders, twin = source(nodes, "shop.orders"), source(nodes, "shop.orders__quarantine")
    assert [check.name for check in orders.checks] == ["bad_record", "id > 0"]
    assert column_names(twin.with_metadata(NO_COLUMNS)) == columns
    job = compiled_checks.drop_job(orders.checks, orders.spark)
    assert job is not None
    of_records, other = job["drop"]
    assert (of_records["record_columns"], of_records["quarantine"]) == ([*columns[1:]], True)
    assert "record_columns" not in other


def test_what_becomes_of_bad_records_is_logic() -> None:
    words = ("fail", "drop", "quarantine")
    nodes = [source(compiled(FILES, word=word)[0], "shop.orders") for word in words]
    assert len({node.logic for node in nodes}) == 3
    assert [bool(node.checks) for node in nodes] == [False, False, True]


def test_names_of_files_identify_partitions_whose_bad_records_name_them() -> None:
    plain, quarantining = (
        source(compiled(FILES, word=word)[0], "shop.orders") for word in ("drop", "quarantine")
    )
    assert connector_identity.listed_metadata(plain.read) == ()
    assert connector_identity.listed_metadata(quarantining.read) == ("name",)
    assert plain.listing != quarantining.listing


def test_bad_messages_are_quarantined_beside_late_ones() -> None:
    nodes, problems = compiled(f"{TOPIC}, {DECLARED}, {LATE}")
    assert not problems
    assert {name for name in nodes if name.endswith("__quarantine")} == {
        "shop.orders__quarantine",
        "shop.orders_messages__quarantine",
    }
    assert [check.name for check in source(nodes, "shop.orders_messages").checks] == ["bad_record"]
    assert not nodes["shop.orders"].is_source

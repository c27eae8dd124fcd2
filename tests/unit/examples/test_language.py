"""Tests of transforms in blueprints: their form, and what `validate` says of them."""

from __future__ import annotations

import pytest

from controlplane.core.blueprint import parse
from controlplane.core.blueprint.example_model import ExpectedCheck, ExpectedError, ExpectedRows
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.model.revisions import Revision
from controlplane.operations.desired.blueprints import SentBlueprint, validate

pytestmark = pytest.mark.unit

HEAD = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: /data/*.csv, format: csv, schema: "id INT, price DOUBLE"}
  loose:
    read: {connector: files, path: /data/*.json, format: json}
  dear:
    transform: {sql: "SELECT o.id FROM orders o JOIN loose USING (id) WHERE price > :least", params: {least: 1}}
"""


def told(tests: str, head: str = HEAD) -> list[tuple[int, str, str]]:
    text = f"{head}    tests:\n{tests}"
    return [
        (p.line, p.code, p.message) for p in validate([SentBlueprint("/f.yaml", text, {})]).problems
    ]


def one(more: str) -> str:
    return f"      - name: one\n        {more}\n        expect: []\n"


def test_forms() -> None:
    expectations = [
        "[{id: 1}]",
        "{rows: [{id: 1}], order: exact, tolerance: 0.1}",
        "{check: id > 0}",
        "{error: no}",
    ]
    tests = "".join(
        f"      - {{name: n{i}, expect: {text}}}\n" for i, text in enumerate(expectations)
    )
    tests = f"{HEAD}    tests:\n{tests}"
    rows, ordered, check, error = [t.expect for t in parse(tests, file="f").components[2].tests]
    assert isinstance(rows, ExpectedRows)
    assert (rows.is_ordered, rows.tolerance, rows.rows[0].values) == (False, 1e-9, {"id": 1})
    assert isinstance(ordered, ExpectedRows)
    assert (ordered.is_ordered, ordered.tolerance) == (True, 0.1)
    assert isinstance(check, ExpectedCheck)
    assert isinstance(error, ExpectedError)


@pytest.mark.parametrize(
    ("tests", "code", "words"),
    [
        ("      - {expect: []}\n", "missing-key", "'name'"),
        ("      - {name: a}\n", "missing-key", "'expect'"),
        ("      - {name: a, expect: {}}\n", "missing-key", "rows, check, error"),
        ("      - {name: a, expect: {rows: [], check: id > 1}}\n", "conflicting-keys", "'check'"),
        (
            "      - {name: a, expect: {check: id > 1, order: exact}}\n",
            "conflicting-keys",
            "'order'",
        ),
        (
            "      - {name: a, expect: []}\n      - {name: a, expect: []}\n",
            "invalid-value",
            "two tests are called 'a'",
        ),
        ("      - {name: a, as_of: noon, expect: []}\n", "invalid-value", "'noon' is no time"),
        ("      - {name: a, expect: [1]}\n", "wrong-type", "a row"),
        (one("given: {orders: {rows: [], file: a.csv}}"), "conflicting-keys", "'file'"),
        (
            one("given: {orders: {rows: [], format: csv}}"),
            "conflicting-keys",
            "belongs to a 'file'",
        ),
        (one("given: {order: []}"), "unknown-key", "dear has no input 'order'"),
        (one("given: {orders: [{idd: 1}]}"), "unknown-key", "orders has no column 'idd'"),
        (one("given: {orders: [{id: one}]}"), "wrong-type", "id: 'one' is no INT"),
        (one("given: {loose: [{x: 1}, {x: a}]}"), "wrong-type", "x has values of several kinds"),
        (one("params: {most: 1}"), "unknown-key", "dear has no parameter 'most'"),
        ("      - {name: a, expect: {check: id >}}\n", "invalid-sql", ""),
        ("      - {name: a, expect: {check: idd > 1}}\n", "unknown-column", "'idd'"),
        ("      - {name: a, expect: [{ID: 1}, {idd: 1}, {idd: 2}]}\n", "unknown-column", "'idd'"),
    ],
)
def test_problems(tests: str, code: str, words: str) -> None:
    assert [(c, words in message) for _, c, message in told(tests)] == [(code, True)]


def test_a_problem_has_the_place_of_the_value() -> None:
    rows = "            - {id: 1}\n            - {id: x}\n"
    tests = f"      - name: a\n        given:\n          orders:\n{rows}        expect: []\n"
    assert [line for line, _, _ in told(tests)] == [14]


def test_problems_of_tests_stand_beside_all_others() -> None:
    head = HEAD.replace("  dear:", "  sum:\n    transform: {sql: SELEC 1}\n  dear:")
    found = told(one("given: {order: []}"), head)
    assert [(line, code) for line, code, _ in found] == [(8, "not-a-query"), (13, "unknown-key")]


def test_columns_of_a_result_that_data_tells_are_not_asked_for() -> None:
    head = HEAD.replace("SELECT o.id", "SELECT *")
    assert told("      - {name: a, expect: [{x: 1}]}\n", head) == []


def test_only_transforms_have_tests() -> None:
    head = HEAD.partition("  dear:")[0]
    assert [code for _, code, _ in told("      - {name: a, expect: []}\n", head)] == [
        "conflicting-keys"
    ]


def test_they_are_no_part_of_the_logic() -> None:
    texts = [HEAD, f"{HEAD}    tests:\n      - {{name: a, given: {{nowhere: []}}, expect: []}}\n"]
    revisions = [
        Revision("main", "shop", 1, text, {}, "/f.yaml", {}, "", "", 0.0) for text in texts
    ]
    before, after = (
        compile_revisions([revision]).require().nodes["shop.dear"] for revision in revisions
    )
    assert before.lineage == after.lineage

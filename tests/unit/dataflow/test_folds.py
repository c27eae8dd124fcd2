"""Transforms that read their own partition before: what of it belongs to the logic, and every way
to get it wrong."""

from __future__ import annotations

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Transform
from controlplane.core.compile.ordered_fold import Fold
from controlplane.core.errors import InvalidBlueprint, Problem
from controlplane.core.model.revisions import Revision
from controlplane.core.schema.ddl_schemas import parse_ddl
from tests.unit.blueprint.texts import marked

FLOW = """dataflow: a
components:
  days:
    read: {connector: files, path: /data/d, format: csv, schema: "k INT, v INT"}
  names:
    read: {connector: files, path: /data/n, format: csv, schema: "k INT"}
  total:
"""
DDL = "k INT, v BIGINT"
SQL = "SELECT k, sum(v) AS v FROM (SELECT * FROM self UNION ALL SELECT * FROM days) GROUP BY k"
PYTHON = "python: 'def transform(self, days): return self'"


def flow(body: str, schema: str = f'schema: "{DDL}"') -> str:
    return f"{FLOW}    transform:\n      {body}\n      {schema}\n"


def compiled(text: str) -> Transform:
    node = (
        compile_revisions([Revision("main", "a", 1, text, {}, "/a.yaml", {}, "", "", 0.0)])
        .require()
        .nodes["a.total"]
    )
    assert isinstance(node, Transform)
    return node


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(InvalidBlueprint) as found:
        compiled(text)
    return found.value.problems


@pytest.mark.parametrize("code", [f"sql: {SQL}", PYTHON])
def test_the_partition_before_is_no_dataset_of_others(code: str) -> None:
    node = compiled(flow(f"{code}\n      inputs: {{self: previous, days: each}}"))
    assert node.fold == Fold("self", parse_ddl(DDL))
    assert [(s.name, s.mode) for s in node.slots] == [("days", "each")]


def test_it_may_have_another_name() -> None:
    code = "python: 'def transform(before, days): return before'"
    node = compiled(
        flow(f"{code}\n      inputs: {{before: {{from: self, mode: previous}}, days: each}}")
    )
    assert node.fold == Fold("before", parse_ddl(DDL))


def test_what_sql_reads_row_by_row_need_not_be_declared() -> None:
    node = compiled(
        flow("sql: SELECT * FROM self UNION ALL SELECT * FROM days\n      inputs: {self: previous}")
    )
    assert [(s.name, s.mode) for s in node.slots] == [("days", "each")]


def test_its_name_and_columns_belong_to_the_logic() -> None:
    inputs = "\n      inputs: {self: previous, days: each}"
    logic = compiled(flow(PYTHON + inputs)).logic
    assert compiled(flow(PYTHON + inputs, f'schema: "{DDL}"  # said in other words')).logic == logic
    assert compiled(flow(PYTHON + inputs, "schema: k INT, v INT")).logic != logic


CASES = [
    ("missing-input", "sql: SELECT * FROM self\n      inputs: {^self: previous}", ""),
    ("missing-input", f"{PYTHON}\n      inputs: {{^self: previous, days: all}}", ""),
    ("missing-input", "sql: SELECT count(*) FROM self, days\n      inputs: {^self: previous}", ""),
    ("not-supported", f"{PYTHON}\n      inputs: {{^self: previous, days: by}}", ""),
    ("unused-input", "sql: SELECT * FROM days\n      inputs: {^self: previous, days: each}", ""),
    ("missing-input", "sql: SELECT * FROM ^self\n      inputs: {}", None),
    (
        "invalid-schema",
        f"{PYTHON}\n      inputs: {{self: previous, days: each}}",
        "schema: k ^NOTHING",
    ),
    (
        "not-supported",
        f"{PYTHON}\n      inputs: {{self: previous, days: each}}",
        f'schema: "{DDL}"\n    expect:\n      - ^check: k > 0\n        on_fail: quarantine',
    ),
    ("missing-input", "python: 'def transform(self): pass'\n      inputs: {^self: previous}", ""),
]


@pytest.mark.parametrize(("code", "body", "schema"), CASES)
def test_each_mistake_is_told_at_its_place(code: str, body: str, schema: str | None) -> None:
    given = f'schema: "{DDL}"' if schema == "" else schema or ""
    text, places = marked(flow(body, given))
    found = problems(text)
    assert [(p.code, (p.line, p.column)) for p in found] == [(code, place) for place in places], (
        found
    )


def test_who_reads_self_undeclared_hears_how() -> None:
    [found] = problems(flow("sql: SELECT * FROM self", ""))
    assert "inputs: {self: previous}" in found.hint


def test_a_function_cannot_take_what_is_not_declared() -> None:
    [found] = problems(flow(f"{PYTHON}\n      inputs: {{days: each}}", ""))
    assert (found.code, found.message) == (
        "missing-input",
        "the function takes 'self', which is no input",
    )

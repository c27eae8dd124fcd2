"""`max_recompute`: edits that would read an input whole, where it was read in part, are refused."""

from __future__ import annotations

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import NOTHING, Transform
from controlplane.core.errors import Problem
from controlplane.core.model.revisions import Revision
from controlplane.core.review import review
from controlplane.core.schema.ddl_schemas import parse_ddl
from tests.unit.review.test_review import Known

FLOW = """dataflow: a
components:
  f:
    read: {connector: files, path: /data/f, format: csv, schema: "k INT, v INT"}
  g:
    read: {connector: files, path: /data/g, format: csv, schema: "k STRING, v INT"}
  text: {transform: {sql: "SELECT k, v FROM g"}}
  out:
    max_recompute: {f: LIMIT}
    transform:
      sql: |
        QUERY
      partition_by: KEY
"""
FILTER = "SELECT k FROM f WHERE v > 1"
SUMS = "SELECT k, sum(v) AS v FROM f GROUP BY k"


def flow(query: str, limit: str = "partition", key: str = "[k]") -> str:
    lines = query.replace("\n", "\n        ")
    text = FLOW.replace("LIMIT", limit).replace("QUERY", lines)
    return text.replace("KEY", key) if key else text.replace("      partition_by: KEY\n", "")


def problems(text: str) -> tuple[Problem, ...]:
    return compile_revisions(
        [Revision("main", "a", 1, text, {}, "/a.yaml", {}, "", "", 0)]
    ).problems


@pytest.mark.parametrize(
    ("query", "limit", "key"),
    [(FILTER, "partition", ""), (FILTER, "key", ""), (SUMS, "key", "[k]")],
)
def test_an_input_within_its_limit_is_no_problem(query: str, limit: str, key: str) -> None:
    assert problems(flow(query, limit, key)) == ()


def test_an_input_that_is_read_whole_is_refused_at_the_words_of_the_query() -> None:
    [problem] = problems(flow("SELECT k\nFROM f ORDER BY v", key=""))
    assert (problem.code, problem.line, problem.column) == ("reads-more", 13, 16)
    assert problem.message == (
        "out reads f whole, and max_recompute allows one partition of it; "
        "ORDER BY at line 2: 'ORDER BY v'"
    )
    assert problem.hint.startswith("to be read by a key, name in `partition_by:`")


def test_an_input_that_is_read_by_key_exceeds_one_partition() -> None:
    [problem] = problems(flow(SUMS))
    assert (problem.code, problem.line) == ("reads-more", 9)
    assert "out reads f by key" in problem.message
    assert "`max_recompute: {f: key}`" in problem.hint


def test_a_declared_mode_is_refused_where_it_is_declared() -> None:
    text = flow(FILTER, key="") + "      inputs: {f: all}\n"
    [problem] = problems(text)
    assert (problem.code, problem.line, problem.column) == ("reads-more", 13, 16)
    assert "declared all" in problem.message


def test_a_limit_of_another_input_is_unused() -> None:
    text = flow(FILTER, key="").replace("max_recompute: {f:", "max_recompute: {ff:")
    [problem] = problems(text)
    assert (problem.code, problem.line, problem.hint) == ("unused-input", 9, "did you mean 'f'?")


def test_a_limit_is_part_of_no_identity() -> None:
    facts = Known()
    limited = flow(FILTER, key="")
    facts.apply(limited)
    before = facts.desired.nodes["a.out"]
    facts.apply(limited.replace("    max_recompute: {f: partition}\n", ""))
    after = facts.desired.nodes["a.out"]
    assert isinstance(before, Transform)
    assert isinstance(after, Transform)
    assert (before.logic, before.lineage, before.own) == (after.logic, after.lineage, after.own)


def test_a_mode_that_follows_from_types_breaks_the_plan_once_they_are_known() -> None:
    joined = flow("SELECT f.k, t.v FROM f JOIN text t ON f.k = t.k", "key")
    assert problems(joined) == ()
    facts = Known()
    facts.apply(joined)
    unanswered = review(NOTHING, facts.desired, facts)
    assert unanswered.breaks == ()
    [request] = [r for r in unanswered.requests if r.task.dataset == "a.text"]
    facts.memos[request.task.key] = {"schema": parse_ddl("k STRING, v INT")}
    [broken] = review(NOTHING, facts.desired, facts).breaks
    assert (broken.problem.code, broken.component, broken.by) == ("reads-more", "a.out", "a.out")
    assert "k is INT in f and STRING in text" in broken.problem.message

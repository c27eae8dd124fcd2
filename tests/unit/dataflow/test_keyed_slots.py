"""Which inputs of a query are read by the key of its output, by proof alone."""

from __future__ import annotations

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Slot, Transform
from controlplane.core.errors import InvalidBlueprint
from controlplane.core.model.revisions import Revision

FLOW = """dataflow: a
components:
  f:
    read: {{connector: files, path: /data/f, format: csv, schema: "k INT, d DATE, v INT"}}
  g:
    read: {{connector: files, path: /data/g, format: csv, schema: "k INT, v INT"}}
  text:
    read: {{connector: files, path: /data/h, format: csv, schema: "k STRING, v INT"}}
  unknown:
    read: {{connector: files, path: /data/i, format: csv}}
  out:
    transform:
      sql: "{sql}"
      partition_by: {key}
      inputs: {hints}
"""
SUMS = "SELECT k, sum(v) AS v FROM f GROUP BY k"


def slots(sql: str, key: str = "[k]", hints: str = "{}") -> dict[str, Slot]:
    text = FLOW.format(sql=sql, key=key, hints=hints)
    node = compile_revisions([Revision("main", "a", 1, text, {}, "/a.yaml", {}, "", "", 0.0)]).nodes["a.out"]
    assert isinstance(node, Transform)
    return {slot.name: slot for slot in node.slots}


@pytest.mark.parametrize(
    ("sql", "key", "columns"),
    [
        (SUMS, "[k]", ("k",)),
        (SUMS, "[{k: bucket 8}]", ("k",)),
        ("SELECT k, d, max(v) AS v FROM f GROUP BY k, d", "[k, {d: month}]", ("k", "d")),
        ("SELECT k AS other, v FROM f", "[other]", ("k",)),
        ("SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v) AS place FROM f", "[k]", ("k",)),
    ],
)
def test_one_input_is_read_by_the_key(sql: str, key: str, columns: tuple[str, ...]) -> None:
    found = slots(sql, key)["f"]
    assert (found.mode, found.columns, found.is_proven) == ("by", columns, True)
    assert found.reason.startswith("`by` ")


def test_what_is_joined_to_it_in_any_other_way_is_read_whole() -> None:
    found = slots("SELECT f.k, g.v FROM f JOIN g ON f.v = g.v")
    assert {name: slot.mode for name, slot in found.items()} == {"f": "by", "g": "all"}


def test_both_sides_are_where_their_columns_are_declared_alike() -> None:
    found = slots("SELECT f.k, g.v FROM f JOIN g ON f.k = g.k")
    assert {name: slot.mode for name, slot in found.items()} == {"f": "by", "g": "by"}


@pytest.mark.parametrize("other", ["text", "unknown"])
def test_types_that_may_differ_take_the_proof_from_both_sides(other: str) -> None:
    """01 and 1 meet as numbers, and are two keys as texts."""
    found = slots(f"SELECT f.k, o.v FROM f JOIN {other} o ON f.k = o.k")
    assert {slot.mode for slot in found.values()} == {"all"}


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT k + 1 AS k, sum(v) AS v FROM f GROUP BY k + 1", "[k]"),  # no column has these values
        ("SELECT k, sum(v) AS v, rank() OVER (ORDER BY sum(v)) AS place FROM f GROUP BY k", "[k]"),
        ("SELECT k, v FROM f ORDER BY v LIMIT 3", "[k]"),
        (SUMS, "[v]"),
    ],
)
def test_what_is_not_proven_is_read_whole(sql: str, key: str) -> None:
    assert slots(sql, key)["f"].mode == "all"


def test_what_is_declared_is_what_is_done() -> None:
    whole = slots(SUMS, hints="{f: all}")["f"]
    assert (whole.mode, whole.columns, whole.is_proven) == ("all", (), False)
    declared = slots(SUMS, hints="{f: by}")["f"]
    assert (declared.mode, declared.columns, declared.is_proven) == ("by", ("k",), False)


EXPECTING = """    expect: [{{name: positive, check: v > 0, on_fail: {on_fail}}}]
"""


def compiled(on_fail: str, mode: str) -> Transform:
    text = FLOW.format(sql="SELECT k, max(v) AS v FROM f GROUP BY k", key="[k]", hints=f"{{f: {mode}}}")
    text += EXPECTING.format(on_fail=on_fail)
    node = compile_revisions([Revision("main", "a", 1, text, {}, "/a.yaml", {}, "", "", 0.0)]).nodes["a.out"]
    assert isinstance(node, Transform)
    return node


def test_rows_are_dropped_also_where_one_task_gives_all_keys() -> None:
    assert [c.is_drop for c in compiled("drop", "all").checks] == [True]
    assert compiled("drop", "all").logic != compiled("warn", "all").logic
    assert [c.quarantines for c in compiled("quarantine", "by").checks] == [True]


def test_rows_are_not_quarantined_there() -> None:
    with pytest.raises(InvalidBlueprint) as refused:
        compiled("quarantine", "all")
    [problem] = refused.value.problems
    assert (problem.file, problem.line, problem.column, problem.code) == ("/a.yaml", 16, 14, "not-supported")
    assert "by` the key" in problem.hint

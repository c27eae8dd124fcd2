"""Partition keys of columns: their language, which types give keys, and that different values give
different keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.blueprint import KeyColumn, SqlTransform, parse
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Desired, Transform
from controlplane.core.errors import InvalidBlueprint
from controlplane.core.model.revisions import Revision
from controlplane.core.partitioning import column_fault
from controlplane.core.schema.ddl_schemas import parse_ddl
from dataplane.contract.keys import column_key, column_texts, pair_key

pytestmark = pytest.mark.unit

TEXTS = st.lists(
    st.none() | st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3
)
NAMES = ["a", "b/=", "ü c"]


@given(TEXTS)
def test_a_key_tells_its_texts(texts: list[str | None]) -> None:
    assert column_texts(column_key(NAMES[: len(texts)], texts)) == texts


@given(TEXTS, st.text(max_size=5), TEXTS, st.text(max_size=5))
def test_pairs_are_told_apart(
    one: list[str | None], p: str, other: list[str | None], q: str
) -> None:
    keys = [column_key(NAMES[: len(texts)], texts) for texts in (one, other)]
    assert (pair_key(keys[0], p) == pair_key(keys[1], q)) == ((one, p) == (other, q))


@pytest.mark.parametrize(
    ("texts", "key"),
    [
        (["UA"], "a=UA"),
        ([None], "a"),
        ([""], "a="),
        (["x/y z", "~"], "a=x%2Fy%20z/b%2F%3D=%7E"),
        ([None, ""], "a/b%2F%3D="),
    ],
)
def test_keys_in_words(texts: list[str | None], key: str) -> None:
    assert column_key(NAMES[: len(texts)], texts) == key


def test_what_partition_by_says() -> None:
    text = "dataflow: d\ncomponents: {a: {transform: {sql: SELECT 1, partition_by: [m, {d: month}, {c: bucket 64}]}}}"
    [component] = parse(text, file="d.yaml", files={}).components
    assert isinstance(component.body, SqlTransform)
    assert component.body.partition_by == (
        KeyColumn("m"),
        KeyColumn("d", "month"),
        KeyColumn("c", buckets=64),
    )


SCHEMA = parse_ddl(
    "n BIGINT, s STRING, b BOOLEAN, d DATE, t TIMESTAMP, u TIMESTAMP_NTZ, x DECIMAL(9,2), f DOUBLE, a ARRAY<INT>"
)


@pytest.mark.parametrize("column", ["n", "N", "s", "b", "d", "x"])
def test_columns_that_give_keys(column: str) -> None:
    assert column_fault(SCHEMA, KeyColumn(column), column, case_sensitive=False) is None


@pytest.mark.parametrize(
    "part",
    [
        *(KeyColumn(c) for c in ("f", "a", "t", "u", "missing")),
        *(KeyColumn("d", granule) for granule in ("minute", "15 minutes", "hour")),
        KeyColumn("s", "day"),
        KeyColumn("f", buckets=4),
        KeyColumn("t", buckets=4),
    ],
)
def test_columns_that_give_none(part: KeyColumn) -> None:
    assert column_fault(SCHEMA, part, part.column, case_sensitive=False)


def test_names_where_case_counts() -> None:
    assert column_fault(SCHEMA, KeyColumn("N"), "N", case_sensitive=True)


# --- compiled -------------------------------------------------------------------------------------

FLOW = """
dataflow: d
components:
  x: {read: {connector: files, path: /x/*.csv, format: csv}}
  y: {read: {connector: files, path: /y/*.csv, format: csv}}
  out:
    transform: {sql: "SELECT x.k, count(*) AS n FROM x JOIN y USING (k) GROUP BY x.k", %s}
"""


def compiled(settings: str) -> Desired:
    revision = Revision("main", "d", 1, FLOW % settings, {}, "/d.yaml", {}, "ann", "r", 0.0)
    return compile_revisions([revision]).require()


def out(settings: str) -> Transform:
    node = compiled(settings).nodes["d.out"]
    assert isinstance(node, Transform)
    return node


def codes(settings: str) -> set[str]:
    with pytest.raises(InvalidBlueprint) as refused:
        compiled(settings)
    return {problem.code for problem in refused.value.problems}


def test_a_slot_names_the_columns_of_the_key() -> None:
    node = out("inputs: {x: by, y: all}, partition_by: [k]")
    assert {s.name: (s.mode, s.columns) for s in node.slots} == {
        "x": ("by", ("k",)),
        "y": ("all", ()),
    }


def test_how_rows_are_keyed_is_logic() -> None:
    both = "inputs: {x: by, y: by}, partition_by: "
    keys = ["[k]", "[{k: bucket 4}]", "[{k: bucket 8}]", "[{k: day}]", "[k, j]"]
    logics = {out(both + key).logic for key in keys} | {
        out("inputs: {x: by, y: all}, partition_by: [k]").logic
    }
    assert len(logics) == len(keys) + 1


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ("inputs: {x: by}", "missing-key"),
        ("inputs: {x: by, y: each}, partition_by: [k]", "conflicting-keys"),
        ("inputs: {x: each, y: all}, partition_by: [k]", "conflicting-keys"),
    ],
)
def test_modes_that_do_not_go_together(settings: str, code: str) -> None:
    assert codes(settings) == {code}

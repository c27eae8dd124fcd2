"""Which datasets of a branch are its own: what it forced or holds, and all that reads it."""

from __future__ import annotations

import pytest

from controlplane.core.compile import ownership
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.model.revisions import Revision

pytestmark = pytest.mark.unit
TEXT = """dataflow: shop
components:
  orders: {read: {connector: files, path: /data/orders, format: csv, schema: "v INT"}}
  plus: {transform: {sql: SELECT v + 1 AS v FROM orders}}
  total: {transform: {sql: SELECT sum(v) AS v FROM plus}}
"""
DESIRED = compile_revisions(
    [Revision("main", "shop", 1, TEXT, {}, "/a.yaml", {}, "", "", 0.0)]
).require()


def test_a_branch_without_edits_owns_nothing() -> None:
    assert ownership.own(DESIRED, DESIRED, {}, {}) == frozenset()


def test_all_that_reads_a_forced_dataset_is_the_branchs_own() -> None:
    assert ownership.own(DESIRED, DESIRED, {"shop.plus": 1}, {}) == {"shop.plus", "shop.total"}


def test_all_that_reads_a_held_dataset_is_the_branchs_own() -> None:
    assert ownership.own(DESIRED, DESIRED, {}, {}, held={"shop.plus"}) == {
        "shop.plus",
        "shop.total",
    }

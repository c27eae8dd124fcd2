"""What expectations have to do with identities: nothing, but for the rows that they drop."""

from __future__ import annotations

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.ids import footers_key as ids_of_footers
from controlplane.core.compile.nodes import Node, Source, Transform, settings_id
from controlplane.core.errors import InvalidBlueprint
from controlplane.core.model.revisions import Revision

TEXT = """
dataflow: shop
components:
  orders:
    read: {connector: files, path: /data/*.csv, format: csv, options: {header: true}}
ORDERS
  large:
    transform: {sql: SELECT k FROM orders WHERE v > 10}
LARGE
"""


def nodes(orders: str = "", large: str = "") -> dict[str, Node]:
    text = TEXT.replace("ORDERS", f"    expect: [{orders}]").replace(
        "LARGE", f"    expect: [{large}]"
    )
    revision = Revision(
        "main", "shop", 1, text, {}, "/shop.yaml", {"orders": "u1", "large": "u2"}, "", "", 0.0
    )
    return dict(compile_revisions([revision]).require().nodes)


def ids(orders: str = "", large: str = "") -> tuple[str, ...]:
    found = nodes(orders, large)
    source, transform = found["shop.orders"], found["shop.large"]
    assert isinstance(source, Source)
    assert isinstance(transform, Transform)
    named = (
        source.parse,
        source.logic,
        source.lineage,
        settings_id(source),
        transform.logic,
        transform.lineage,
    )
    return tuple(id.hex()[:16] for id in named)


PLAIN = (
    "c7ca3299cad38e10",
    "82893138d04f912e",
    "ab573637819648ef",
    "a1fc15a80dc19548",
    "2a55f5cdef07b6ca",
    "6bf4dfcef4e86d55",
)
FILTERED = (
    "2fafb955918168bc",
    "0a4d2bdfdac6245f",
    "cc3ba86caa9b639a",
    "a1fc15a80dc19548",
    "8965b28cc54f9741",
    "9805302987755ff8",
)
QUARANTINING = (
    "7358148d97d09c4c",
    "92ae4eef197e944e",
    "f0f19f836833ddbf",
    "a1fc15a80dc19548",
    "5d3eba5b4896cede",
    "08f80d9d439997c7",
)
PARQUET = ["6fb42bf8ee273abb", "209f317a41004602", "4acbc81d61d27670"]
FOOTERS = "d4a953c165088114"


def test_golden() -> None:
    assert ids() == PLAIN
    assert ids("{check: v > 0, on_fail: drop}", "{check: k > 0, on_fail: drop}") == FILTERED
    assert (
        ids("{check: v > 0, on_fail: quarantine}", "{check: k > 0, on_fail: quarantine}")
        == QUARANTINING
    )


@pytest.mark.parametrize(
    "one", ["{check: v > 0}", "{check: v > 0, on_fail: warn}", "{unique: [k]}", "{rows: {min: 1}}"]
)
def test_what_only_looks_is_no_part_of_any_identity(one: str) -> None:
    assert ids(one, one) == PLAIN


def test_a_name_an_order_and_spaces_change_nothing_about_what_is_dropped() -> None:
    first, second = (
        "{check: v > 0, on_fail: drop}",
        "{name: known, check: 'k  is not null', on_fail: drop}",
    )
    assert ids(f"{first}, {second}") == ids("{check: k IS NOT NULL, on_fail: drop}, " + first)
    assert ids(f"{first}, {second}") != ids(first)


def test_what_is_dropped_does_not_unpin_a_schema() -> None:
    assert ids("{check: v > 0, on_fail: drop}")[3] == PLAIN[3]


def test_a_condition_is_found_at_its_place() -> None:
    with pytest.raises(InvalidBlueprint) as found:
        nodes("{check: v > 0}, {check: 'v > (SELECT 1)'}")
    (problem,) = found.value.problems
    assert (problem.code, problem.line) == ("not-a-condition", 6)


def test_what_parses_files_with_types_has_a_new_identity_and_its_schema_stays() -> None:
    """Results and pins of versions that did not ask files for their types are found under the ids
    that these had."""
    text = (
        TEXT.replace("csv, options: {header: true}", "parquet")
        .replace("ORDERS", "")
        .replace("LARGE", "")
    )
    revision = Revision(
        "main", "shop", 1, text, {}, "/shop.yaml", {"orders": "u1", "large": "u2"}, "", "", 0.0
    )
    source = compile_revisions([revision]).require().nodes["shop.orders"]
    assert isinstance(source, Source)
    assert source.earlier is not None
    assert [id.hex()[:16] for id in (source.parse, source.earlier, settings_id(source))] == PARQUET
    assert ids_of_footers(b"task").hex()[:16] == FOOTERS

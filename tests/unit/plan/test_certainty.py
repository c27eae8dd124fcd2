"""What a plan says for certain, and what is only possible, with its reason.

Does not belong here: which step is decided (test_examples).
"""

from __future__ import annotations

from controlplane.core.plan import Item
from tests.unit.plan.facts import Facts

FILES = 192
SHOP = """dataflow: shop
components:
  orders: {read: {connector: files, path: /data/orders, format: csv, options: {header: true}, schema: "v INT"}}
  plus: {transform: {sql: SELECT v + 1 AS v FROM orders}}
  total: {transform: {sql: SELECT collect_list(v) AS v FROM plus}}
  rest: {transform: {sql: SELECT v FROM total}}
  copy: {write: {connector: files, from: plus, path: /out, format: json}}
"""
SUMS = """  sums:
    transform:
      sql: SELECT v FROM self UNION ALL SELECT v FROM orders
      inputs: {self: previous, orders: each}
      schema: "v INT"
"""


def settled(text: str = SHOP, files: int = FILES) -> Facts:
    facts = Facts()
    facts.apply(text)
    facts.list(_files(files), "shop.orders")
    facts.settle()
    assert facts.plan().items == ()
    return facts


def _files(count: int, version: str = "1") -> dict[str, str]:
    return {f"{n:03}": version for n in range(count)}


def told(facts: Facts) -> dict[str, tuple[bool, int, str, str]]:
    return {item.dataset.partition(".")[2]: _told(item) for item in facts.plan().items}


def _told(item: Item) -> tuple[bool, int, str, str]:
    return item.certain, item.tasks, item.cause, item.reason


def test_an_edit_over_known_partitions_is_certain_and_its_readers_are_possible() -> None:
    facts = settled()
    facts.apply(SHOP.replace("v + 1", "v + 2"))
    assert told(facts) == {
        "plus": (True, FILES, "logic", ""),
        "total": (False, 1, "input", "if rows of shop.plus differ"),
        "rest": (False, 1, "input", "if rows of shop.total differ"),
        "copy": (False, FILES, "sync", "if rows of shop.plus differ"),
    }
    before = len(facts.known)
    facts.settle()
    computed = len(facts.known) - before
    assert computed >= FILES


def test_what_memory_has_of_an_edit_is_no_certain_task() -> None:
    facts = settled()
    facts.apply(SHOP.replace("v + 1", "v + 2"))
    facts.settle()
    facts.list(_files(FILES) | {"new": "1"}, "shop.orders")
    facts.settle()
    facts.apply(SHOP)
    assert told(facts)["plus"] == (True, 1, "logic", "")


def test_a_new_component_over_known_partitions_is_certain() -> None:
    facts = settled()
    facts.apply(SHOP + "  minus: {transform: {sql: SELECT v - 1 AS v FROM orders}}\n")
    assert told(facts) == {"minus": (True, FILES, "missing", "")}


def test_of_a_first_run_only_the_files_are_certain() -> None:
    facts = Facts()
    facts.apply(SHOP)
    facts.list(_files(3), "shop.orders")
    assert told(facts) == {
        "orders": (True, 3, "missing", ""),
        "plus": (False, 3, "missing", "once rows of shop.orders are known"),
        "total": (False, 1, "missing", "once rows of shop.plus are known"),
        "rest": (False, 1, "missing", "once rows of shop.total are known"),
        "copy": (False, 3, "sync", "if rows of shop.plus differ"),
    }


def test_a_changed_file_is_certain_and_what_reads_it_is_possible() -> None:
    facts = settled()
    facts.list(_files(FILES) | {"007": "2"}, "shop.orders")
    found = told(facts)
    assert found["orders"] == (True, 1, "input", "")
    assert found["plus"] == (False, 1, "input", "if rows of shop.orders differ")


def test_more_partitions_than_are_looked_up_are_an_upper_bound() -> None:
    facts = settled()
    facts.exact, facts.window = 100, 0
    facts.apply(SHOP.replace("v + 1", "v + 2"))
    assert told(facts)["plus"] == (
        False,
        FILES,
        "logic",
        "less those that memory has: so many are not looked up for a plan",
    )


def test_of_a_fold_the_first_partition_is_certain() -> None:
    text = SHOP[: SHOP.index("  plus")] + SUMS
    facts = settled(text, files=3)
    facts.list({"000": "2", "001": "1", "002": "1"}, "shop.orders")
    facts.carry_out()
    facts.answer()
    facts.carry_out()
    first, later = facts.plan().items
    assert _told(first) == (True, 1, "input", "")
    assert _told(later) == (
        False,
        2,
        "input",
        "if the partition before, which each of them reads, differs",
    )

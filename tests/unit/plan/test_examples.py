"""The planner by examples: facts in, decision out. Read this first.

Each example is one line of facts (a blueprint, and what happened since, in order) and one line with
what is decided about one dataset: its status, the step with the partitions that it is about, and
why. The words for facts follow the table; the world that they change is in `facts`. Does not belong
here: how an answer is found, and what finding it costs (test_fold, tests/store/test_planning_cost).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from controlplane.core.compile import ids
from controlplane.core.compile.nodes import Source
from controlplane.core.model.states import LOST
from controlplane.core.plan.checks.check_decision import WAITING
from controlplane.core.plan.sink import voided
from controlplane.core.plan.unfinished import LATER
from dataplane.contract.results import task_error
from dataplane.contract.schemas import Json, Schema
from tests.unit.plan.facts import DAY_S, Facts, in_words

ORDERS = """dataflow: shop
components:
  orders: {read: {connector: files, path: /data/orders, format: csv, options: {header: true}, schema: "v INT"}}
"""
PARQUET = ORDERS.replace("csv, options: {header: true}", "parquet")
PRICES = ORDERS.split("components:\n")[1].replace("orders", "prices")
UNTYPED = ORDERS.replace(', schema: "v INT"', "")
PLUS = "  plus: {transform: {sql: SELECT v + 1 AS v FROM orders}}\n"
MINUS = PLUS.replace("+", "-")
TOTAL = "  total: {transform: {sql: SELECT sum(v) AS v FROM orders}}\n"
MEAN = TOTAL.replace("sum", "avg")
BOTH = "  both: {transform: {sql: SELECT v FROM orders UNION ALL SELECT v FROM prices}}\n"
DAILY = "  now: {volatile: daily, transform: {sql: 'SELECT v, current_date() AS d FROM orders'}}\n"
CHECKED = "  plus: {transform: {sql: SELECT v + 1 AS v FROM orders}, expect: [{check: v < 9}]}\n"
COPY = "  copy: {write: {connector: files, from: plus, path: /out, format: json}}\n"
FOLD = """  sums:
    transform:
      sql: SELECT v FROM self UNION ALL SELECT v FROM orders
      inputs: {self: previous, orders: each}
      schema: "v INT"
"""
PRICED = "  priced: {transform: {sql: SELECT v FROM prices}}\n"
MET = """  met:
    transform:
      sql: SELECT p.v, count(*) AS n FROM plus p LEFT JOIN priced q ON p.v = q.v GROUP BY p.v
      partition_by: [v]
"""
LESS = "  less: {transform: {sql: SELECT v - 1 AS v FROM orders}}\n"
EDGES = "  edges: {transform: {sql: SELECT v FROM plus UNION ALL SELECT v FROM less}}\n"
NEAR = """  near:
    transform:
      sql: SELECT o.v FROM orders o JOIN prices p ON o.v < p.v
      inputs: {orders: each, prices: all}
"""
OTHER = (ORDERS + PLUS).replace("dataflow: shop", "dataflow: other")
IN_PLUS, IN_CHECKED, IN_FOLD = ORDERS + PLUS, ORDERS + CHECKED, ORDERS + FOLD
APPENDED = "  plus: {append_only: true, transform: {sql: SELECT v + 1 AS v FROM orders}}\n"
IN_APPENDED = ORDERS + APPENDED
IN_TOTAL, IN_MEAN = ORDERS + TOTAL, ORDERS + MEAN
IN_MET = ORDERS + PRICES + PLUS + PRICED + MET
IN_FORKED, IN_EDGES, IN_NEAR = (
    ORDERS + PLUS + LESS,
    ORDERS + PLUS + LESS + EDGES,
    ORDERS + PRICES + NEAR,
)
IN_BOTH, IN_COPY, IN_DAILY = ORDERS + PRICES + BOTH, ORDERS + PLUS + COPY, ORDERS + DAILY

Fact = Callable[[Facts], None]


# --- words for facts ------------------------------------------------------------------------------


def blueprint(*texts: str) -> Fact:
    return lambda facts: facts.apply(*texts)


def listed(files: str, dataset: str = "orders") -> Fact:
    """The files that a listing found: `a b=2` are a in version 1 and b in version 2; `b=1~` has the
    same rows."""
    versions = {
        name: version or "1" for name, _, version in (file.partition("=") for file in files.split())
    }
    return lambda facts: facts.list(versions, f"shop.{dataset}")


def listing_has(**fields: Json) -> Fact:
    return lambda facts: facts.change_listing("shop.orders", **fields)


def settled(facts: Facts) -> None:
    """All that was decided was done, until there was nothing left to do."""
    facts.settle()


def failed(partition: str) -> Fact:
    """The same, but tasks of one partition failed."""
    return lambda facts: facts.settle(failing=partition)


def settled_with_bad_rows(facts: Facts) -> None:
    """The same as settled, and one row of each partition that is looked at is not as expected."""
    facts.settle(bad_rows=1)


def passed(facts: Facts) -> None:
    """One pass: what was decided is carried out or asked for. Nobody works."""
    facts.carry_out()


def answered(facts: Facts) -> None:
    """Whatever is asked for is done; no pass has taken notice."""
    facts.answer()


def over(passes: int) -> Fact:
    """So many times a pass, and an answer to all that it asked for."""

    def change(facts: Facts) -> None:
        for _ in range(passes):
            facts.carry_out()
            facts.answer()

    return change


def only(dataset: str) -> Fact:
    """A pass, and an answer to what it asked for one dataset; the others are slow. The next pass
    takes it in."""

    def change(facts: Facts) -> None:
        facts.carry_out()
        facts.answer(of=f"shop.{dataset}")
        facts.carry_out()

    return change


def paused(target: str) -> Fact:
    def change(facts: Facts) -> None:
        facts.operator_pauses |= {target}

    return change


def forced(dataset: str) -> Fact:
    def change(facts: Facts) -> None:
        facts.forces[dataset] = facts.forces.get(dataset, 0) + 1

    return change


def retried(facts: Facts) -> None:
    """Failed tasks are queued again."""
    facts.queue = {key: replace(task, state="queued") for key, task in facts.queue.items()}


def files_lost(facts: Facts) -> None:
    """Some of the files of plus are gone: repair marked its state, and forgot the trace and the
    build."""
    last = facts.states["shop.plus"][-1]
    facts.states["shop.plus"].append(replace(last, seq=last.seq + 1, logic=LOST, lineage=LOST))
    facts.known.clear()
    facts.builds.clear()


def copy_lost(facts: Facts) -> None:
    """Its target is gone, or may be: each partition is to be written again."""
    facts.targets["shop.copy"] = voided(facts.nodes, facts.targets["shop.copy"])


def next_day(facts: Facts) -> None:
    facts.now += DAY_S


def overtaken(facts: Facts) -> None:
    """Somebody is at work on what follows from the files a and b; c has come since, and orders has
    it already."""
    listed("a b")(facts)
    over(1)(facts)
    facts.carry_out()
    listed("a b c")(facts)
    facts.carry_out()
    facts.answer(of="shop.orders")
    facts.carry_out()


def rows_overtake_writing(facts: Facts) -> None:
    """A writer is at work on the new rows of a; the new rows of b have come since, and plus has
    them already."""
    listed("a=2 b")(facts)
    over(2)(facts)
    facts.carry_out()
    listed("a=2 b=2")(facts)
    for dataset in ("shop.orders", "shop.plus"):
        facts.carry_out()
        facts.answer(of=dataset)
    facts.carry_out()


def by_an_earlier_version(facts: Facts) -> None:
    """What is decided now has the identities of a version that did not ask files for their
    types."""
    node = facts.desired.nodes["shop.orders"]
    assert isinstance(node, Source)
    assert node.earlier is not None
    logic = ids.read_logic(node.earlier, node.declared, node.read.schema_change)
    lineage = ids.lineage_id(logic, {"": node.listing})
    before = replace(node, parse=node.earlier, earlier=None, logic=logic, lineage=lineage)
    facts.desired = replace(facts.desired, nodes={**facts.desired.nodes, "shop.orders": before})


def misread(partition: str) -> Fact:
    """Its file has another type than the dataset."""

    def change(facts: Facts) -> None:
        facts.misread |= {partition}

    return change


def few_at_a_time(facts: Facts) -> None:
    """More than two partitions are many, and are computed two at a time."""
    facts.exact = facts.window = 2


def half_read(facts: Facts) -> None:
    """Of what was asked for, all but the file d was read."""
    facts.carry_out()
    facts.answer(but="d")


def one_write_failed(facts: Facts) -> None:
    """That of a; the one of b is still under way."""
    facts.carry_out()
    facts.answer(but="b", failing="a")


def only_counted(facts: Facts) -> None:
    """So does who only wants to see the plan: many partitions are counted."""
    facts.exact, facts.window = 2, 0


# --- the table ------------------------------------------------------------------------------------

NO_ACCESS = task_error("infrastructure", "no-access", "access denied")
LOSS = {"before": 10, "lost": 9}
HELD = "the last listing lost 9 of 10 partitions; it waits for `headgate refresh --accept-deletes`"
SELF = "c: self, the partition before (b), is another one"
# Its name, the facts, and what is decided of which dataset
Example = tuple[str, list[Fact], tuple[str, str, str, str]]

SOURCES: list[Example] = [
    (
        "a source that was never listed",
        [blueprint(ORDERS)],
        ("orders", "stale", "Keep", "not listed yet"),
    ),
    (
        "the first listing failed",
        [blueprint(ORDERS), listing_has(error=NO_ACCESS)],
        ("orders", "failed", "Keep", "the listing failed"),
    ),
    (
        "listed, and empty: a generation without rows",
        [blueprint(ORDERS), listed("")],
        ("orders", "stale", "Commit", ""),
    ),
    (
        "listed: every file is read",
        [blueprint(ORDERS), listed("a b")],
        ("orders", "stale", "Compute a b", "missing"),
    ),
    (
        "somebody is reading",
        [blueprint(ORDERS), listed("a b"), passed],
        ("orders", "building", "Compute a b", "missing"),
    ),
    (
        "read: what tasks gave is known, nothing is left to compute",
        [blueprint(ORDERS), listed("a b"), passed, answered],
        ("orders", "stale", "Commit a b", "missing"),
    ),
    (
        "nothing changed",
        [blueprint(ORDERS), listed("a b"), settled, listed("a b")],
        ("orders", "up_to_date", "Keep", ""),
    ),
    (
        "a new file is read, and no other one",
        [blueprint(ORDERS), listed("a b"), settled, listed("a b c")],
        ("orders", "stale", "Compute c", "input"),
    ),
    (
        "a changed file is read again, and no other one",
        [blueprint(ORDERS), listed("a b"), settled, listed("a b=2")],
        ("orders", "stale", "Compute b", "input"),
    ),
    (
        "a removed file takes no task",
        [blueprint(ORDERS), listed("a b"), settled, listed("a")],
        ("orders", "stale", "Commit -b", "removed"),
    ),
    (
        "append_only: new partitions are committed",
        [blueprint(IN_APPENDED), listed("a"), settled, listed("a b"), over(2)],
        ("plus", "stale", "Commit b", "input"),
    ),
    (
        "append_only: a changed partition is computed, and not committed",
        [blueprint(IN_APPENDED), listed("a b"), settled, listed("a b=2"), over(2)],
        ("plus", "failed", "Keep", ""),
    ),
    (
        "append_only: a changed file of equal rows changes no partition",
        [blueprint(IN_APPENDED), listed("a b"), settled, listed("a b=1~"), over(2)],
        ("plus", "up_to_date", "Keep", ""),
    ),
    (
        "append_only: a partition is not removed",
        [blueprint(IN_APPENDED), listed("a b"), settled, listed("b"), over(1)],
        ("plus", "failed", "Keep", ""),
    ),
    (
        "append_only: edited code is not committed, since it changes all partitions",
        [
            blueprint(IN_APPENDED),
            listed("a b c d e"),
            settled,
            blueprint(IN_APPENDED.replace("+ 1", "- 1")),
            over(2),
        ],
        ("plus", "failed", "Keep", ""),
    ),
    (
        "append_only: the earlier code again",
        [
            blueprint(IN_APPENDED),
            listed("a b"),
            settled,
            blueprint(IN_APPENDED.replace("+ 1", "- 1")),
            over(2),
            blueprint(IN_APPENDED),
        ],
        ("plus", "up_to_date", "Keep", ""),
    ),
    (
        "a file that comes back is remembered",
        [blueprint(ORDERS), listed("a b"), settled, listed("a"), settled, listed("a b")],
        ("orders", "stale", "Commit b", "input"),
    ),
    (
        "a later listing failed: readers keep what there is",
        [blueprint(ORDERS), listed("a b"), settled, listing_has(error=NO_ACCESS)],
        ("orders", "failed", "Keep", "the listing failed"),
    ),
    (
        "a listing that lost most files waits for a person",
        [blueprint(ORDERS), listed("a b"), settled, listing_has(held=LOSS)],
        ("orders", "waiting", "Keep", HELD),
    ),
    (
        "somebody waits for a newer listing",
        [
            blueprint(ORDERS),
            listed("a b"),
            settled,
            listing_has(requested=1, held={"awaited": True}),
        ],
        ("orders", "stale", "Keep", "waits for a listing"),
    ),
    (
        "a schema that is neither declared nor pinned is inferred first",
        [blueprint(UNTYPED), listed("a b")],
        ("orders", "stale", "Learn infer", "schema inference"),
    ),
    (
        "once it is inferred, files are read under it",
        [blueprint(UNTYPED), listed("a b"), passed, answered],
        ("orders", "stale", "Compute a b", "missing"),
    ),
    (
        "a pinned schema is not inferred again",
        [blueprint(UNTYPED), listed("a b"), settled, listed("a b c")],
        ("orders", "stale", "Compute c", "input"),
    ),
    (
        "of many files, who only looks is told a number",
        [blueprint(ORDERS), only_counted, listed("a b c d")],
        ("orders", "stale", "Keep", "missing"),
    ),
]

PARSED_BEFORE = [
    blueprint(PARQUET),
    by_an_earlier_version,
    listed("a b"),
    settled,
    blueprint(PARQUET),
]
EARLIER: list[Example] = [
    (
        "parsed by a version that did not ask files for their types: footers are looked at first",
        PARSED_BEFORE,
        ("orders", "stale", "Compute a b", "types not checked"),
    ),
    (
        "somebody is looking",
        [*PARSED_BEFORE, passed],
        ("orders", "building", "Compute a b", "types not checked"),
    ),
    (
        "all were read right: nothing is parsed, and no row changes",
        [*PARSED_BEFORE, over(1)],
        ("orders", "stale", "Commit", "logic"),
    ),
    (
        "one was misread: it alone is parsed anew",
        [*PARSED_BEFORE, misread("a"), over(1)],
        ("orders", "stale", "Compute a", "logic"),
    ),
    (
        "footers of one cannot be read: parsing says why",
        [*PARSED_BEFORE, failed("b")],
        ("orders", "failed", "Compute b", "1 of 1 tasks failed"),
    ),
    (
        "a new file beside them has nothing to be taken over",
        [*PARSED_BEFORE, listed("a b c"), over(1)],
        ("orders", "stale", "Compute c", "logic"),
    ),
    (
        "very many that were looked at are taken over",
        [
            blueprint(PARQUET),
            by_an_earlier_version,
            listed("a b c d"),
            settled,
            few_at_a_time,
            blueprint(PARQUET),
            settled,
        ],
        ("orders", "up_to_date", "Keep", ""),
    ),
]

PRICES_CHANGED: list[Fact] = [listed("c=2", dataset="prices"), over(1)]
TRANSFORMS: list[Example] = [
    (
        "an input that has no state yet",
        [blueprint(IN_PLUS), listed("a b")],
        ("plus", "stale", "Keep", "waits for shop.orders"),
    ),
    (
        "one of two inputs has no state yet",
        [blueprint(IN_BOTH), listed("a"), settled],
        ("both", "stale", "Keep", "waits for shop.prices"),
    ),
    (
        "an input that is being computed again",
        [blueprint(IN_PLUS), listed("a b"), settled, listed("a b=2")],
        ("plus", "stale", "Keep", "an input is being computed"),
    ),
    (
        "the columns of a query are asked for first",
        [blueprint(IN_PLUS), listed("a b"), over(1)],
        ("plus", "stale", "Learn analyse", "analysis"),
    ),
    (
        "no state: every partition is computed",
        [blueprint(IN_PLUS), listed("a b"), over(2)],
        ("plus", "stale", "Compute a b", "missing"),
    ),
    (
        "one partition of the input changed",
        [blueprint(IN_PLUS), listed("a b"), settled, listed("a b=2"), over(1)],
        ("plus", "stale", "Compute b", "input"),
    ),
    (
        "one partition of the input went: no task",
        [blueprint(IN_PLUS), listed("a b"), settled, listed("a")],
        ("plus", "stale", "Commit -b", "removed"),
    ),
    (
        "a file was written again with the same rows: a pointer moves",
        [blueprint(IN_PLUS), listed("a b"), settled, listed("a b=1~"), over(1)],
        ("plus", "stale", "Commit remembered", ""),
    ),
    (
        "an aggregate is computed whole",
        [blueprint(IN_TOTAL), listed("a b"), settled, listed("a b=2"), over(1)],
        ("total", "stale", "Compute whole", "input"),
    ),
    (
        "logic changed: every partition is computed again",
        [blueprint(IN_PLUS), listed("a b"), settled, blueprint(ORDERS + MINUS), over(1)],
        ("plus", "stale", "Compute a b", "logic"),
    ),
    (
        "other white space is the same logic",
        [
            blueprint(IN_PLUS),
            listed("a b"),
            settled,
            blueprint(IN_PLUS.replace("v + 1", "v  +  1")),
        ],
        ("plus", "up_to_date", "Keep", ""),
    ),
    (
        "logic that was changed back is remembered",
        [
            blueprint(IN_PLUS),
            listed("a b"),
            settled,
            blueprint(ORDERS + MINUS),
            settled,
            blueprint(IN_PLUS),
        ],
        ("plus", "stale", "Commit remembered a b", "logic"),
    ),
    (
        "the same read in another dataflow is adopted without a task",
        [blueprint(IN_PLUS), listed("a b"), settled, blueprint(IN_PLUS, OTHER)],
        ("other.orders", "stale", "Commit remembered a b", "missing"),
    ),
    (
        "the same query in another dataflow, too, in the same pass",
        [blueprint(IN_PLUS), listed("a b"), settled, blueprint(IN_PLUS, OTHER)],
        ("other.plus", "stale", "Commit remembered a b", "missing"),
    ),
    (
        "its files are gone: they are made again",
        [blueprint(IN_PLUS), listed("a b"), settled, files_lost],
        ("plus", "stale", "Compute a b", "lost"),
    ),
    (
        "an input that is read whole changed: every partition is computed again",
        [
            blueprint(IN_NEAR),
            listed("a b"),
            listed("c", dataset="prices"),
            settled,
            *PRICES_CHANGED,
        ],
        ("near", "stale", "Compute a b", "input"),
    ),
    (
        "inputs of different moments are not read together",
        [blueprint(IN_EDGES), listed("a"), settled, listed("a=2"), over(1), only("plus")],
        ("edges", "stale", "Keep", "an input is being computed"),
    ),
    (
        "of a half-built input, what is there is read",
        [blueprint(IN_PLUS), few_at_a_time, listed("a b c d"), half_read],
        ("plus", "stale", "Compute a b c", "missing"),
    ),
]

PAUSES_AND_FAILURES: list[Example] = [
    (
        "paused in its blueprint",
        [blueprint(ORDERS.replace("{read", "{paused: true, read")), listed("a b")],
        ("orders", "paused", "Keep", "paused in its blueprint"),
    ),
    (
        "paused by an operator",
        [blueprint(IN_PLUS), listed("a b"), paused("shop.plus")],
        ("plus", "paused", "Keep", "paused by an operator"),
    ),
    (
        "paused with its dataflow",
        [blueprint(IN_PLUS), listed("a b"), paused("shop")],
        ("plus", "paused", "Keep", "paused by an operator"),
    ),
    (
        "an input that is paused before it has a state",
        [blueprint(IN_PLUS), listed("a b"), paused("shop.orders")],
        ("plus", "blocked", "Keep", "shop.orders is paused"),
    ),
    (
        "an input that failed",
        [blueprint(IN_PLUS), listed("a b"), failed("b")],
        ("plus", "blocked", "Keep", "shop.orders has failed"),
    ),
    (
        "a failed task waits: it is not tried again by itself",
        [blueprint(ORDERS), listed("a b"), failed("b"), passed],
        ("orders", "failed", "Compute b", "1 of 1 tasks failed"),
    ),
    (
        "until its file changes",
        [blueprint(ORDERS), listed("a b"), failed("b"), listed("a b=2")],
        ("orders", "stale", "Compute b", "missing"),
    ),
    (
        "or it is retried",
        [blueprint(ORDERS), listed("a b"), failed("b"), retried],
        ("orders", "building", "Compute b", "missing"),
    ),
    (
        "a failed task stops no other one",
        [blueprint(ORDERS), listed("a b"), failed("b"), listed("a b c")],
        ("orders", "stale", "Compute b c", "1 of 2 tasks failed"),
    ),
]

FOLDS: list[Example] = [
    (
        "a fold begins with its first partition",
        [blueprint(IN_FOLD), listed("a b c"), over(2)],
        ("sums", "stale", "Compute a", "missing"),
    ),
    (
        "the frontier moves on by one",
        [blueprint(IN_FOLD), listed("a b c"), over(3)],
        ("sums", "stale", "Compute b", "missing"),
    ),
    (
        "one more at the end: only that is computed",
        [blueprint(IN_FOLD), listed("a b c"), settled, listed("a b c d"), over(1)],
        ("sums", "stale", "Compute d", "input"),
    ),
    (
        "one in the middle changed: the fold begins there",
        [blueprint(IN_FOLD), listed("a b c"), settled, listed("a b=2 c"), over(1)],
        ("sums", "stale", "Compute b", "input"),
    ),
    (
        "and goes on, as the one before came out with other rows",
        [blueprint(IN_FOLD), listed("a b c"), settled, listed("a b=2 c"), over(2)],
        ("sums", "stale", "Compute c", SELF),
    ),
    (
        "a hole is filled",
        [blueprint(IN_FOLD), listed("a c"), settled, listed("a b c"), over(1)],
        ("sums", "stale", "Compute b", "input"),
    ),
    (
        "what follows the hole reads it",
        [blueprint(IN_FOLD), listed("a c"), settled, listed("a b c"), over(2)],
        ("sums", "stale", "Compute c", SELF),
    ),
    (
        "the last one went: no task",
        [blueprint(IN_FOLD), listed("a b c"), settled, listed("a b")],
        ("sums", "stale", "Commit -c", "removed"),
    ),
    (
        "one that fails holds all after it",
        [blueprint(ORDERS), listed("a b c"), settled, blueprint(IN_FOLD), failed("b")],
        ("sums", "failed", "Compute b", "partition b failed; 1 after it wait for it"),
    ),
]

CHECKS: list[Example] = [
    (
        "rows are there, but nobody has looked at them yet",
        [blueprint(IN_CHECKED), listed("a b"), over(3)],
        ("plus", "stale", "RunChecks a b", WAITING),
    ),
    (
        "somebody is looking",
        [blueprint(IN_CHECKED), listed("a b"), over(3), passed],
        ("plus", "building", "RunChecks a b", WAITING),
    ),
    (
        "all is as expected: they become a generation",
        [blueprint(IN_CHECKED), listed("a b"), over(4)],
        ("plus", "stale", "Commit a b", "missing"),
    ),
    (
        "a failing check holds the commit",
        [blueprint(IN_CHECKED), listed("a b"), settled_with_bad_rows],
        ("plus", "failed", "Keep", "an expectation fails; there is no generation yet"),
    ),
    (
        "a failing check leaves readers what they have",
        [blueprint(IN_CHECKED), listed("a"), settled, listed("a b"), settled_with_bad_rows],
        ("plus", "failed", "Keep", "an expectation fails; readers keep generation 1"),
    ),
    (
        "only a partition that changed is looked at",
        [blueprint(IN_CHECKED), listed("a b"), settled, listed("a b=2"), over(2)],
        ("plus", "stale", "RunChecks b", WAITING),
    ),
    (
        "a check that is added looks at the rows that are there",
        [blueprint(IN_PLUS), listed("a b"), settled, blueprint(IN_CHECKED)],
        ("plus", "stale", "RunChecks a b", WAITING),
    ),
]

SINKS: list[Example] = [
    (
        "a copy waits for its dataset",
        [blueprint(IN_COPY), listed("a b")],
        ("copy", "stale", "Keep", "waits for shop.plus"),
    ),
    (
        "a copy that was never written",
        [blueprint(IN_PLUS), listed("a b"), settled, blueprint(IN_COPY)],
        ("copy", "stale", "Sync a b", "sync"),
    ),
    (
        "a copy that is up to date",
        [blueprint(IN_COPY), listed("a b"), settled],
        ("copy", "up_to_date", "Keep", ""),
    ),
    (
        "a copy that is behind: the difference is written",
        [blueprint(IN_COPY), listed("a b c"), settled, listed("a b=2"), over(2)],
        ("copy", "stale", "Sync b -c", "sync"),
    ),
    (
        "a copy that is being written is finished first",
        [blueprint(IN_COPY), listed("a b"), settled, rows_overtake_writing],
        ("copy", "building", "Sync a", LATER),
    ),
    (
        "then it takes what came since",
        [blueprint(IN_COPY), listed("a b"), settled, rows_overtake_writing, answered, passed],
        ("copy", "stale", "Sync b", "sync"),
    ),
    (
        "a copy of a dataset without rows that is paused is blocked",
        [blueprint(IN_COPY), listed("a"), paused("shop.plus")],
        ("copy", "blocked", "Keep", "shop.plus is paused"),
    ),
    (
        "a copy that has all waits for a dataset that is at work",
        [blueprint(IN_COPY), listed("a"), settled, listed("a=2")],
        ("copy", "stale", "Keep", "waits for shop.plus"),
    ),
    (
        "a copy that has all is noted at its generation",
        [blueprint(IN_PLUS), listed("a b"), settled, blueprint(IN_COPY), over(1)],
        ("copy", "stale", "Sync", ""),
    ),
    (
        "a copy whose target is gone is written whole",
        [blueprint(IN_COPY), listed("a b"), settled, copy_lost],
        ("copy", "stale", "Sync a b", "sync"),
    ),
    (
        "a copy that goes elsewhere is written whole",
        [
            blueprint(IN_COPY),
            listed("a b"),
            settled,
            blueprint(IN_COPY.replace("/out", "/elsewhere")),
        ],
        ("copy", "stale", "Sync a b", "sync"),
    ),
    (
        "a copy that cannot be written",
        [blueprint(IN_PLUS), listed("a b"), settled, blueprint(IN_COPY), failed("a")],
        ("copy", "failed", "Sync a", "1 of 1 writes failed"),
    ),
    (
        "a failed write stops no other one",
        [blueprint(IN_PLUS), listed("a b"), settled, blueprint(IN_COPY), one_write_failed],
        ("copy", "building", "Sync a b", "1 of 2 writes failed"),
    ),
    (
        "a copy of what is blocked",
        [blueprint(IN_COPY), listed("a"), failed("a")],
        ("copy", "blocked", "Keep", "shop.plus is blocked"),
    ),
]

AGAIN: list[Example] = [
    (
        "a forced source is read again",
        [blueprint(ORDERS), listed("a b"), settled, forced("shop.orders")],
        ("orders", "stale", "Compute a b", "forced by an operator"),
    ),
    (
        "a forced transform is computed again",
        [blueprint(IN_PLUS), listed("a b"), settled, forced("shop.plus")],
        ("plus", "stale", "Compute a b", "forced by an operator"),
    ),
    (
        "what is below is not, where the rows came out the same",
        [blueprint(IN_PLUS), listed("a b"), settled, forced("shop.orders"), over(1)],
        ("plus", "stale", "Commit remembered", ""),
    ),
    (
        "volatile results stand for their day",
        [blueprint(IN_DAILY), listed("a b"), settled, passed],
        ("now", "up_to_date", "Keep", ""),
    ),
    (
        "and are made again on the next",
        [blueprint(IN_DAILY), listed("a b"), settled, next_day],
        ("now", "stale", "Compute a b", "volatile: the day turned"),
    ),
]

RUNS: list[Example] = [
    (
        "a run of a source goes on where files only came",
        [blueprint(ORDERS), listed("a"), settled, listed("a b"), passed, listed("a b c")],
        ("orders", "building", "Compute b", LATER),
    ),
    (
        "a run of a source is given up where its file is another one now",
        [blueprint(ORDERS), listed("a"), settled, listed("a b"), passed, listed("a b=2")],
        ("orders", "stale", "Compute b", "input"),
    ),
    (
        "a run is given up where the newest inputs need no work",
        [blueprint(ORDERS), listed("a"), settled, listed("a b"), passed, listed("a")],
        ("orders", "up_to_date", "Keep", ""),
    ),
    (
        "a run of a transform goes on, whatever its input came to since",
        [blueprint(IN_TOTAL), listed("a"), settled, overtaken],
        ("total", "building", "Compute whole", LATER),
    ),
    (
        "a run is given up with its code: the newest input is taken",
        [
            blueprint(IN_MEAN),
            listed("a"),
            settled,
            blueprint(IN_TOTAL),
            settled,
            overtaken,
            blueprint(IN_MEAN),
        ],
        ("total", "stale", "Compute whole", "logic"),
    ),
]

BY_TYPES: list[Example] = [
    (
        "modes that follow from types are not decided before there are rows of these types",
        [blueprint(IN_MET), listed("a b"), listed("c", dataset="prices"), over(2)],
        ("met", "stale", "Keep", "waits for shop.plus"),
    ),
    (
        "once they are known, and the same, its inputs are read by the key: their partitions are told apart by it",
        [blueprint(IN_MET), listed("a b"), listed("c", dataset="prices"), over(4)],
        ("met", "stale", "Compute a b", "once it is known which keys the changed partitions have"),
    ),
    (
        "a declared mode stays",
        [
            blueprint(IN_MET + "      inputs: {plus: all, priced: all}\n"),
            listed("a b"),
            listed("c", dataset="prices"),
            over(4),
        ],
        ("met", "stale", "Compute whole", "missing"),
    ),
]

GROUPS = (
    SOURCES,
    EARLIER,
    TRANSFORMS,
    PAUSES_AND_FAILURES,
    FOLDS,
    CHECKS,
    SINKS,
    AGAIN,
    RUNS,
    BY_TYPES,
)


@pytest.mark.parametrize(
    ("facts", "decided"),
    [pytest.param(facts, decided, id=name) for group in GROUPS for name, facts, decided in group],
)
def test_decision(facts: list[Fact], decided: tuple[str, str, str, str]) -> None:
    dataset, *expected = decided
    world = Facts()
    for fact in facts:
        fact(world)
    decision = world.plan().of(dataset if "." in dataset else f"shop.{dataset}")
    assert decision is not None
    assert list(in_words(world, decision)) == expected


@pytest.mark.parametrize(
    ("text", "order"),
    [
        pytest.param(
            ORDERS + TOTAL + PLUS,
            ["orders", "plus", "total"],
            id="by name where nothing else decides",
        ),
        pytest.param(
            ORDERS + COPY + PLUS,
            ["orders", "plus", "copy"],
            id="inputs first, whatever stands first",
        ),
        pytest.param(ORDERS + BOTH + PRICES, ["orders", "prices", "both"], id="all inputs first"),
    ],
)
def test_order_of_decisions(text: str, order: list[str]) -> None:
    world = Facts()
    world.apply(text)
    assert [decision.dataset.removeprefix("shop.") for decision in world.plan().decisions] == order


def test_the_error_of_append_only_names_three_partitions() -> None:
    edited = IN_APPENDED.replace("+ 1", "- 1")
    world = Facts()
    for fact in [blueprint(IN_APPENDED), listed("a b c d e"), settled, blueprint(edited), over(2)]:
        fact(world)
    decision = world.plan().of("shop.plus")
    assert decision is not None
    assert decision.error is not None
    assert "would change or remove a, b, c and 2 more" in decision.error["message"]


def test_the_newest_inputs_that_agree_are_read() -> None:
    """less is slow: of what both inputs have made of one moment of orders, the last is read."""
    world = Facts()
    facts = [
        blueprint(IN_FORKED),
        listed("a"),
        settled,
        listed("a=2"),
        settled,
        listed("a=3"),
        over(1),
        only("plus"),
    ]
    for fact in [*facts, blueprint(IN_EDGES), only("edges")]:
        fact(world)
    run = world.unfinished("shop.edges")
    assert run is not None
    assert run.states == {"plus": 2, "less": 2}


def test_one_pass_decides_what_follows_from_its_own_commits() -> None:
    """Nobody has to wait for the next pass: plus sees the state that orders is about to have."""
    world = Facts()
    world.apply(IN_PLUS)
    world.list({"a": "1"}, "shop.orders")
    over(1)(world)
    steps = [in_words(world, decision)[1] for decision in world.plan().decisions]
    assert steps == ["Commit a", "Learn analyse"]


class _Counting(Facts):
    """Counts the memos that a plan asks for."""

    asked = 0

    def remembered(
        self, builds: Sequence[bytes], memos: Sequence[bytes]
    ) -> tuple[Mapping[bytes, tuple[bytes, Schema]], Mapping[bytes, Json]]:
        self.asked += len(memos)
        return super().remembered(builds, memos)


def test_a_check_looks_at_what_differs_from_the_rows_that_passed_it() -> None:
    world, many = _Counting(), " ".join(f"f{number:02}" for number in range(50))
    blueprint(IN_CHECKED)(world)
    listed(many)(world)
    settled(world)
    listed(many.replace("f07", "f07=2"))(world)
    over(2)(world)
    world.asked = 0
    decision = world.plan().of("shop.plus")
    assert decision is not None
    assert in_words(world, decision)[1] == "RunChecks f07"
    assert world.asked < 10


TWO_CHECKED = """
dataflow: f
components:
  a:
    read: {connector: files, path: "/a/*.csv", format: csv, schema: v INT}
    expect: [{name: positive, check: v > 0, on_fail: fail}]
  b:
    read: {connector: files, path: "/b/*.csv", format: csv, schema: v INT}
    expect: [{name: positive, check: v > 0, on_fail: fail}]
"""


def test_a_check_is_not_under_way_because_one_of_another_dataset_is() -> None:
    """The tasks of all datasets of a layer are looked up together."""
    world = Facts()
    world.apply(TWO_CHECKED)
    for dataset, file in (("f.a", "x"), ("f.b", "y")):
        world.list({file: "1"}, dataset)
        world.carry_out()
        world.answer(of=dataset)
        if dataset == "f.a":
            world.carry_out()  # asks for its check
    assert {d.dataset: d.status for d in world.plan().decisions} == {
        "f.a": "building",
        "f.b": "stale",
    }

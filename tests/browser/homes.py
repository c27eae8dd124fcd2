"""Homes whose pages are looked at one by one: one where much has failed, and ones of hundreds and
of thousands of components.

Does not belong here: what must be true of their pages (`test_all_looks`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.operations.desired import blueprints, controls
from tests.unit.expectations.world import World
from tests.unit.ui.test_budget import components
from tests.unit.ui.world import Pages, break_text, compute, lead, pages, publish, served

# Of a dataflow: a task that fails and what waits for it, a location that is not there
RISKY = """\
  wrong: {{transform: {{sql: 'SELECT no_such_function(k) AS k FROM orders'}},
           owner: crm, tags: [money]}}
  after_wrong: {{transform: {{sql: 'SELECT k FROM wrong'}}}}
  after_all: {{transform: {{sql: 'SELECT k FROM after_wrong'}}, freshness: 1h}}
  nowhere:
    read: {{connector: files, path: {home}/nowhere/*.csv, format: csv, schema: "k BIGINT"}}
  of_nowhere: {{transform: {{sql: 'SELECT k FROM nowhere'}}}}
  calm: {{transform: {{sql: 'SELECT k FROM orders'}}}}
"""
LEFT_OUT = """\
dataflow: lost
components:
  sums: {transform: {sql: "SELECT k FROM shop.dear"}}
"""
FAILING = """\
  strict: {transform: {sql: "SELECT k, v FROM orders"}, expect: [{check: "v < 50", on_fail: fail}]}
  after_strict: {transform: {sql: "SELECT k FROM strict"}}
"""


@contextmanager
def troubled(home: Path) -> Iterator[Pages]:
    """What failed, what is blocked, overdue or paused, files that are gone, a dataflow that does
    not compile."""
    with pages(home) as filled:
        world = filled.world
        world.apply(RISKY.format(home=home), "risky")
        world.settle()
        controls.pause(world.ctx, "main", "risky.calm")
        sent = blueprints.SentBlueprint("/lost.yaml", LEFT_OUT, {})
        blueprints.apply(world.ctx, "main", [sent])
        world.settle()
        break_text(filled, "lost", ("dear", "gone"))
        for path in sorted((home / "orders").iterdir())[:50]:
            path.unlink()
        world.settle()
        yield filled


@contextmanager
def large(home: Path, number: int) -> Iterator[Pages]:
    """`number` datasets beside their source, all computed from one file but two of them: the check
    of the first fails."""
    world = World(home)
    world.put("2025-01-01.csv", *((k, k * 10) for k in range(9)))
    world.apply(components(number - len(FAILING.splitlines())) + FAILING, flow="many")
    world.refresh()
    compute(world, "main")
    publish(world)
    lead(world)
    with served(world) as filled:
        yield filled

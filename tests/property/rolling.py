"""A topic in random slices, what reads it in main and in a branch, and roll-ups.

What each dataset holds is worked out from the log. Does not belong here: what happens when (test_roll_up).
"""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path

from controlplane.core import tree
from controlplane.core.model.branches import MAIN, Branch
from controlplane.core.model.roll_ups import is_span
from controlplane.core.plan import EXACT
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.planning.apply_plan import Pass, PlanExecutor
from controlplane.operations.upkeep import roll_up
from controlplane.reconciler.branching import Branching
from dataplane.contract.kinds import DRIVER_KINDS, Kind
from tests.property.engine import Fault, Faults, Work
from tests.property.late_model import BASE_S
from tests.property.memory_store.store import MEMORY
from tests.property.model import Columns, Row
from tests.property.streams import StreamWorld
from tests.property.world import no_faults

FEWEST = 3  # slices in a span
PARTITIONS = 2
FAULTS: tuple[Fault, ...] = ("dies", "dies late", "stutters", "straggles")
DEV = "dev"
TIMES = "SELECT t FROM named WHERE t > 0"  # two slices may have equal rows
TOTAL = "SELECT _p, count(*) AS n FROM named GROUP BY _p"
BY_HOUR = "SELECT t, _p, o FROM named"
TEXT = """\
dataflow: a
components:
  orders:
    read:
      connector: kafka
      servers: broker:9092
      topic: orders
      schema: t TIMESTAMP_NTZ
      refresh: manual
      on_bad_record: {bad}
  named: {{transform: {{sql: "{named}"}}}}
  times: {{transform: {{sql: "{times}"}}}}
  total: {{transform: {{sql: "{total}"}}}}
  by_hour:
    transform:
      sql: {by_hour}
      inputs: {{named: by}}
      partition_by: [{{t: hour}}]
"""


def named(plus: int) -> str:
    return f"SELECT t, _partition AS _p, _offset + {plus} AS o FROM orders"


class RollWorld(StreamWorld):
    """Main, and perhaps a branch; a clock that goes on from 2026."""

    def __init__(
        self, home: Path, chance: random.Random, exact: int = EXACT, url: str = MEMORY
    ) -> None:
        super().__init__(home, url, exact=exact, fewest=3)
        self.chance, self.engine.chance = chance, chance
        planner = self._planner(window=self.window)
        self.settling = PlanExecutor(self.store, planner, self.ctx.namespace, MAIN)
        self.branching = Branching(
            self.store,
            self.ctx.namespace,
            planner,
            FailingUnits(),
            window=self.window,
            since_trace=0,
        )
        self.plus = {MAIN: 0}  # what the texts of branches add to offsets
        self.rolled_up = 0  # slices
        self.engine.log = {p: [] for p in range(PARTITIONS)}

    def _clock(self) -> float:
        return BASE_S + self._now

    def settled(self) -> Pass:
        done = super().settled()
        own = self.branching.settle()
        return Pass(done.plan, done.changed + own.changed, done.under_way + own.under_way)

    # --- what happens -----------------------------------------------------------------------------

    def apply(self, branch: str = MAIN, plus: int = 0, bad: str = "drop") -> None:  # type: ignore[override]  # one text
        self.plus[branch] = plus
        text = TEXT.format(bad=bad, named=named(plus), times=TIMES, total=TOTAL, by_hour=BY_HOUR)
        for sql in (named(plus), TIMES, TOTAL, BY_HOUR):
            self.canonical[sql] = sql
        blueprints.apply(self.ctx, branch, [blueprints.SentBlueprint("/a.yaml", text, {})])

    def create_branch(self, plus: int) -> None:
        with self.store.begin() as tx:
            tx.branches.create(Branch(name=DEV, source=MAIN, at=tx.now(), actor="ann"))
        self.apply(DEV, plus)

    def add(self, minutes: int = 0) -> None:
        """Some messages, after some minutes."""
        self._now += 60 * minutes
        self.engine.now = int(self._now) // 60
        for times in self.engine.log.values():
            for _ in range(self.chance.randrange(4)):
                times.append(self.engine.now - self.chance.choice([0, 0, 5, 90]))

    def list_and_run(self, faults: Faults = no_faults) -> None:
        controls.refresh(self.ctx, MAIN, None)
        self.run(faults)

    def run(self, faults: Faults = no_faults) -> None:
        self._run(faults)
        if faults is not no_faults:
            for branch in self.plus:
                controls.retry(self.ctx, branch, None)
            self._run(no_faults)

    def roll_up(self) -> int:
        slices = roll_up.roll_up(self.store, self.ctx.namespace, FEWEST)
        self.rolled_up += slices
        return slices

    # --- what is true -----------------------------------------------------------------------------

    def check(self) -> None:
        listed = self._listed_rows()
        for branch, plus in self.plus.items():
            rows = Counter((t, p, o + plus) for t, p, o in listed)
            assert self.rows_in(branch, "orders", ("t", "_partition", "_offset")) == Counter(listed)
            assert self.rows_in(branch, "named", ("t", "_p", "o")) == rows
            assert self.rows_in(branch, "by_hour", ("t", "_p", "o")) == rows
            assert self.rows_in(branch, "times", ("t",)) == Counter((t,) for t, _, _ in listed)
            totals = Counter(p for _, p, _ in listed)
            assert self.rows_in(branch, "total", ("_p", "n")) == Counter(totals.items())

    def _listed_rows(self) -> list[tuple[int, int, int]]:
        """The rows of all messages up to the end of the last slice."""
        last = self.engine.slices[-1] if self.engine.slices else []
        rows: list[tuple[int, int, int]] = []
        for of in last:
            for offset, t in enumerate(self.engine.log[of.partition][: of.end]):
                assert t is not None
                rows.append((t, of.partition, offset))
        return rows

    def rows_in(self, branch: str, name: str, columns: Columns) -> Counter[Row]:
        with self.store.read() as tx:
            state = tx.states.newest(branch)[f"a.{name}"]
            fragments = [fragment for _, fragment in self._partitions(tx, state)]
        rows = Counter(row for f in fragments for row in f.under(columns))
        assert state.rows == rows.total()
        return rows

    def keys(self, name: str, branch: str = MAIN) -> list[str]:
        with self.store.read() as tx:
            state = tx.states.newest(branch)[f"a.{name}"]
            return [entry.key for entry in tree.scan(tx.nodes, state.root)]

    def read_spans(self) -> list[Work]:
        """Spans that were read from the topic."""
        return [w for w in self.engine.done if w.key[0] == "slice" and is_span(w.partition)]


def faults_by(chance: random.Random) -> Faults:
    return partial(_fault, chance)


def _fault(chance: random.Random, kind: Kind) -> Fault:
    if kind in DRIVER_KINDS and chance.random() < 0.5:
        return chance.choice(FAULTS)
    return "none"

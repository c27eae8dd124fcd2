"""A topic in random slices, what reads it in main and in a branch, and roll-ups.

What each dataset holds is worked out from the log. Does not belong here: what happens when (test_roll_up).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

from controlplane.core import tree
from controlplane.core.model.branches import MAIN, Branch
from controlplane.core.model.roll_ups import is_span
from controlplane.core.plan import EXACT
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.failing_units import FailingUnits
from controlplane.operations.planning.apply_plan import Pass, PlanExecutor
from controlplane.operations.upkeep import roll_up
from controlplane.ports.store import Store, Tx
from controlplane.reconciler.branching import Branching
from dataplane.contract.kinds import DRIVER_KINDS, Kind
from tests.property.engine import Fault, Faults, Work
from tests.property.late_model import BASE_S
from tests.property.memory_store.store import MEMORY
from tests.property.model import Columns, Row
from tests.property.streams import StreamWorld, closed_rows, expected_watermark, rows_ahead
from tests.property.world import no_faults

FEWEST = 3  # slices in a span
PARTITIONS = 2
FAULTS: tuple[Fault, ...] = ("dies", "dies late", "stutters", "straggles")
DEV = "dev"
TIMES = "SELECT t FROM named WHERE t > 0"  # two slices may have equal rows
TOTAL = "SELECT _p, count(*) AS n FROM named GROUP BY _p"
BY_HOUR = "SELECT t, _p, o FROM named"
MESSAGES = "SELECT * FROM orders_messages"  # of slices with `late`
CLOSED = "SELECT t, _partition AS _p, _offset AS o FROM orders"
DELAY, IDLE = 30, 60  # minutes
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
      event_time: {{column: t, delay: {delay}m, idle: {idle}m}}
      late: {late}
  closed:
    transform:
      sql: {closed}
      inputs: {{orders: by}}
      partition_by: [{{t: hour}}]
      emit: final
  named: {{transform: {{sql: "{named}"}}}}
  times: {{transform: {{sql: "{times}"}}}}
  total: {{transform: {{sql: "{total}"}}}}
  by_hour:
    transform:
      sql: {by_hour}
      inputs: {{named: by}}
      partition_by: [{{t: hour}}]
"""
# Another dataflow over the same topic; it takes over what the first one read
OTHER = """\
dataflow: b
components:
  orders: {{read: {{connector: kafka, servers: "broker:9092", topic: orders,
    schema: t TIMESTAMP_NTZ, refresh: manual, on_bad_record: {bad}}}}}
  named: {{transform: {{sql: "{named}"}}}}
"""


def named(plus: int) -> str:
    return f"SELECT t, _partition AS _p, _offset + {plus} AS o FROM orders"


@dataclass(slots=True)
class BetweenTransactions:
    """A store at which something happens before the first transaction that writes."""

    store: Store
    happens: Callable[[], object]

    def read(self, *args: Any) -> AbstractContextManager[Tx]:
        return self.store.read(*args)

    def begin(self, *args: Any) -> AbstractContextManager[Tx]:
        happens, self.happens = self.happens, lambda: None
        happens()
        return self.store.begin(*args)


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
        self.flows_applied: tuple[str, ...] = ("a", "b")
        self.engine.log = {p: [] for p in range(PARTITIONS)}

    def _clock(self) -> float:
        return BASE_S + self._now

    def settled(self) -> Pass:
        done = super().settled()
        own = self.branching.settle()
        return Pass(done.plan, done.changed + own.changed, done.under_way + own.under_way)

    # --- what happens -----------------------------------------------------------------------------

    def apply(  # type: ignore[override]  # one text
        self, branch: str = MAIN, plus: int = 0, bad: str = "drop", late: str = "correct"
    ) -> None:
        self.plus[branch] = plus
        queries = {"named": named(plus), "times": TIMES, "total": TOTAL, "by_hour": BY_HOUR}
        queries["closed"] = CLOSED
        text = TEXT.format(bad=bad, late=late, delay=DELAY, idle=IDLE, **queries)
        for sql in (*queries.values(), MESSAGES):
            self.canonical[sql] = sql
        texts = {"a": text, "b": OTHER.format(bad=bad, named=named(plus))}
        sent = [
            blueprints.SentBlueprint(f"/{flow}.yaml", texts[flow], {})
            for flow in self.flows_applied
        ]
        blueprints.apply(self.ctx, branch, sent)

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
                times.append(self.engine.now - self.chance.choice([0, 0, 5, 90] * 5 + [-500]))

    def list_and_run(self, faults: Faults = no_faults) -> None:
        controls.refresh(self.ctx, MAIN, None)
        self.run(faults)

    def run(self, faults: Faults = no_faults) -> None:
        self._run(faults)
        if faults is not no_faults:
            for branch in self.plus:
                controls.retry(self.ctx, branch, None)
            self._run(no_faults)

    def roll_up(self, meanwhile: Callable[[], object] = lambda: None) -> int:
        """`meanwhile`: happens once it is decided what to roll up."""
        store = cast("Store", BetweenTransactions(self.store, meanwhile))
        slices = roll_up.roll_up(store, self.ctx.namespace, FEWEST)
        self.rolled_up += slices
        return slices

    def play(self, steps: int = 16, *, has_faults: bool = True) -> None:
        """Random messages, slices, edits, a branch, faults and roll-ups. A task that failed waits
        by the clock of the store: PostgreSQL's own does not jump."""
        chance = self.chance
        for _ in range(steps):
            self.add(chance.choice([1, 10, 40, 70]))
            self._happens(chance.random())
            is_faulty = chance.random() < 0.3 and has_faults
            self.list_and_run(faults_by(chance) if is_faulty else no_faults)
            if not self.engine.slices:
                continue
            self.check()
            if chance.random() < 0.5:
                self.roll_up(chance.choice([self.list_more, lambda: None]))
                self.run()
                self.check()

    def list_more(self) -> None:
        """A slice that comes during a roll-up."""
        self.add()
        self.list_and_run()

    def _happens(self, number: float) -> None:
        if number < 0.1:
            self.apply(plus=self.chance.randrange(3))
        elif number < 0.2 and DEV not in self.plus:
            self.create_branch(self.chance.randrange(10, 13))
        elif number < 0.25 and DEV in self.plus:
            self.apply(DEV, self.chance.randrange(10, 13))
        elif number < 0.3:
            self.roll_up()  # before the last edit was carried out

    # --- what is true -----------------------------------------------------------------------------

    def check(self) -> None:
        listed = self._listed_rows()
        watermark = expected_watermark(self.engine, IDLE, DELAY)
        log = {p: [t for t, of, _ in listed if of == p] for p in range(PARTITIONS)}
        closed = closed_rows(log, watermark)
        times = self.state("orders").inputs["objects"].times
        assert times is not None
        assert times.ahead == rows_ahead(self.engine)
        for branch, plus in self.plus.items():
            rows = Counter((t, p, o + plus) for t, p, o in listed)
            for flow in self.flows_applied:
                read = self.rows_in(branch, f"{flow}.orders", ("t", "_partition", "_offset"))
                assert read == Counter(listed)
                assert self.rows_in(branch, f"{flow}.named", ("t", "_p", "o")) == rows
            assert self.rows_in(branch, "a.by_hour", ("t", "_p", "o")) == rows
            assert self.rows_in(branch, "a.closed", ("t", "_p", "o")) == closed
            assert self.rows_in(branch, "a.times", ("t",)) == Counter((t,) for t, _, _ in listed)
            totals = Counter(p for _, p, _ in listed)
            assert self.rows_in(branch, "a.total", ("_p", "n")) == Counter(totals.items())

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
            state = tx.states.newest(branch)[name]
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

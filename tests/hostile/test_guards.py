"""Each unit of a pass stands by itself: one that raises is told with its name, and delays no other
one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import InvalidBlueprint
from controlplane.core.model.answers import DatasetStatus
from controlplane.core.model.leases import Deposed
from controlplane.core.model.states import State
from controlplane.operations.desired import blueprints
from controlplane.operations.failing_units import FIRST_S, LONGEST_S, STUCK_AFTER, FailingUnits
from controlplane.operations.inspect import overview
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Store, Tx
from tests.hostile.resting import Resting
from tests.property.model import Component, File, Pick, Read, Total
from tests.property.world import BRANCH
from tests.there import there

FILE = File(("k", "v"), ((1, 2), (3, 4)))


class Guarded(Resting):
    """Two dataflows that share nothing: `bad`, which something befalls, and `good`."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, f"sqlite:///{home}/metadata.db")
        for source in ("bad", "good"):  # what the engine sees of the dataflows below
            self.canonical[f"SELECT * FROM {source}__x AS x"] = Pick("x").sql
        self.later = 0.0  # what the clock of troubles says
        self.put("one", "a.csv", FILE)
        self.put("two", "a.csv", File(("k", "v"), ((5, 6),)))
        bad: dict[str, Component] = {"x": Read("one"), "y": Total("x")}
        good: dict[str, Component] = {
            "x": Read("two", declared=("k", "v")),
            "y": Pick("x", shift=1),
        }
        self.apply({"bad": bad, "good": good}, {})

    def _check_kept_plan(self) -> None:
        """A trace of the stack differs from look to look."""

    def _check_cut(self, state: State) -> None:
        """It may not have been committed."""

    def state(self, dataset: str) -> State:
        with self.store.read() as tx:
            return tx.states.newest(BRANCH)[dataset]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Guarded]:
    made = Guarded(tmp_path)
    yield made
    made.close()


def arrives(world: Guarded, *folders: str) -> None:
    for folder in folders:
        world.put(folder, "late.csv", File(("k", "v"), ((7, len(folder)),)))


# --- planning -----------------------------------------------------------------------------------


class Poisoned:
    """A store in which the results of one method (`states.commit`) are spoilt on their way out."""

    def __init__(self, inner: Store, name: str, spoil: Callable[..., Any]) -> None:
        self._inner, self._name, self._spoil = inner, name, spoil

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @contextmanager
    def read(self, namespace: str = "default") -> Iterator[Tx]:
        with self._inner.read(namespace) as tx:
            yield self._poisoned(tx)

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Tx]:
        with self._inner.begin(namespace) as tx:
            yield self._poisoned(tx)

    def _poisoned(self, tx: Any) -> Any:
        part, name = self._name.split(".")
        right = getattr(getattr(tx, part), name)
        setattr(
            getattr(tx, part), name, lambda *args, **options: self._spoil(right, *args, **options)
        )
        return tx


def poison(world: Guarded, name: str, spoil: Callable[..., Any]) -> FailingUnits:
    """From now on passes see spoilt rows; what fails in them."""
    failing_units = FailingUnits(lambda: world.later)
    store: Any = Poisoned(world.store, name, spoil)
    planner = world._planner(window=world.window)
    planner._store = store
    world.settling = PlanExecutor(
        store, planner, world.ctx.namespace, BRANCH, failing_units=failing_units
    )
    return failing_units


def test_rows_that_cannot_be_planned_over_fail_their_dataset_alone(world: Guarded) -> None:
    assert set(world.go_on().values()) == {"up_to_date"}

    def spoilt(right: Callable[..., Any], *args: Any) -> Any:
        found = dict(right(*args))
        bad = world.state("bad.y").inputs
        for name in found:
            if name == "bad.y":
                found[name] = replace(found[name], inputs=dict.fromkeys(bad))
        return found

    poison(world, "states.newest", spoilt)
    arrives(world, "one", "two")
    status = world.go_on()
    assert status == {
        "bad.x": "up_to_date",
        "bad.y": "failed",
        "good.x": "up_to_date",
        "good.y": "up_to_date",
    }
    assert world.state("good.y").generation == 2
    failed = next(d for d in world.settling.settle().plan.decisions if d.dataset == "bad.y")
    assert failed.error is not None
    assert failed.error["condition"] == "internal-error"


def test_a_question_that_cannot_be_answered_fails_its_asker_alone(world: Guarded) -> None:
    """Look-ups are made for many datasets together."""
    assert set(world.go_on().values()) == {"up_to_date"}
    root = world.state("bad.x").root

    def spoilt(right: Callable[..., Any], digests: Any) -> Any:
        found = dict(right(digests))
        found.pop(root, None)
        return found

    poison(world, "nodes.get_nodes", spoilt)
    arrives(world, "one", "two")
    status = world.go_on()
    assert {name: of for name, of in status.items() if of != "up_to_date"} == {
        "bad.x": "failed",
        "bad.y": "blocked",
    }
    assert world.state("good.y").generation == 2


# --- carrying out -------------------------------------------------------------------------------


def test_a_commit_that_raises_holds_up_its_dataset_and_what_is_downstream_alone(
    world: Guarded,
) -> None:
    assert set(world.go_on().values()) == {"up_to_date"}
    spoils = True

    def spoilt(right: Callable[..., Any], branch: str, states: Sequence[State]) -> Any:
        if spoils and any(state.dataset == "bad.x" for state in states):
            raise ValueError("a row that the database refuses")
        return right(branch, states)

    failing_units = poison(world, "states.commit_all", spoilt)
    arrives(world, "one", "two")
    world.go_on()
    assert world.state("good.y").generation == 2
    assert world.state("bad.x").generation == world.state("bad.y").generation == 1
    assert (
        failing_units.units["dataset bad.x"].message
        == "ValueError: a row that the database refuses"
    )
    told = [
        e for e in overview.events(world.ctx, "main", 0, 10_000) if e["kind"] == "dataset.failing"
    ]
    assert {e["dataset"] for e in told} == {"bad.x"}
    # Once may be a moment's trouble
    assert shown(world, failing_units)["bad.x"]["state"] == "stale"
    for _ in range(STUCK_AFTER - 1):
        world.later += LONGEST_S
        world.go_on()
    status = shown(world, failing_units)
    assert status["bad.x"]["state"] == "failed"
    assert (
        "ValueError: a row that the database refuses" in there(status["bad.x"]["error"])["message"]
    )
    assert {name for name, dataset in status.items() if dataset["state"] == "failed"} == {"bad.x"}
    spoils = False
    world.later += LONGEST_S
    assert set(world.go_on().values()) == {"up_to_date"}
    assert world.state("bad.y").generation == 2
    assert failing_units.units == {}


def shown(world: Guarded, failing_units: FailingUnits) -> dict[str, DatasetStatus]:
    """The datasets of `status`, by name, in the process that has the loop."""
    status = overview.status(replace(world.ctx, failing_units=failing_units), BRANCH)
    return {
        dataset["name"]: dataset for flow in status["dataflows"] for dataset in flow["datasets"]
    }


def test_a_leader_that_was_deposed_carries_out_nothing_more(world: Guarded) -> None:
    def spoilt(right: Callable[..., Any], branch: str, states: Sequence[State]) -> None:
        raise Deposed("loop", 1)

    poison(world, "states.commit_all", spoilt)
    with pytest.raises(Deposed):
        world.go_on()


# --- blueprints ---------------------------------------------------------------------------------

READS_BAD = """
dataflow: reader
components:
  z:
    transform: {sql: SELECT * FROM bad.x}
"""


def refuse_from_now_on(world: Guarded) -> None:
    """As a release does that refuses what an earlier one took."""
    with world.store.begin() as tx:
        live = tx.blueprints.revisions(BRANCH)["bad"]
        tx.blueprints.put(
            replace(live, number=live.number + 1, text=live.text.replace("csv", "no-format")),
            live.number,
        )


def test_a_stored_dataflow_that_does_not_compile_stops_no_other(world: Guarded) -> None:
    blueprints.apply(world.ctx, BRANCH, [blueprints.SentBlueprint("/reader.yaml", READS_BAD, {})])
    assert set(world.go_on().values()) == {"up_to_date"}
    refuse_from_now_on(world)
    arrives(world, "one", "two")
    assert world.go_on() == {"good.x": "up_to_date", "good.y": "up_to_date"}
    assert world.state("good.y").generation == 2
    with world.store.read() as tx:
        left_out = desired(tx, BRANCH).left_out
    assert left_out.keys() == {"bad", "reader"}
    assert "no-format" in left_out["bad"]
    status = overview.status(world.ctx, BRANCH)
    assert status["state"] == "failed"
    assert {flow["name"] for flow in status["dataflows"] if "problem" in flow} == {"bad", "reader"}


def test_others_are_edited_while_one_does_not_compile(world: Guarded) -> None:
    world.go_on()
    refuse_from_now_on(world)
    one = "dataflow: other\ncomponents: {a: {transform: {sql: SELECT * FROM good.x}}}"
    blueprints.apply(world.ctx, BRANCH, [blueprints.SentBlueprint("/other.yaml", one, {})])
    assert world.go_on()["other.a"] == "up_to_date"
    with pytest.raises(InvalidBlueprint):  # which reads what cannot be compiled
        blueprints.apply(
            world.ctx, BRANCH, [blueprints.SentBlueprint("/reader.yaml", READS_BAD, {})]
        )
    blueprints.delete(world.ctx, BRANCH, "other")
    with world.store.read() as tx:
        repaired = tx.blueprints.revisions(BRANCH)["bad"].text.replace("no-format", "csv")
    blueprints.apply(world.ctx, BRANCH, [blueprints.SentBlueprint("/bad.yaml", repaired, {})])
    assert set(world.go_on().values()) == {"up_to_date"}


# --- troubles -----------------------------------------------------------------------------------


def test_a_unit_that_fails_is_left_alone_for_a_while_that_grows() -> None:
    now = 0.0
    failing_units = FailingUnits(lambda: now)
    tries = 0

    def work() -> str:
        nonlocal tries
        tries += 1
        raise ValueError("no")

    for _ in range(20):
        assert failing_units.attempt("x", work, "otherwise") == "otherwise"
        now = failing_units.units["x"].until
    waits = [FIRST_S * 2**n for n in range(20)]
    assert now == sum(min(wait, LONGEST_S) for wait in waits)
    assert tries == 20
    assert failing_units.attempt("x", lambda: "done", "otherwise") == "done"
    assert failing_units.units == {}


def test_passes_that_all_fail_are_told_with_the_reason() -> None:
    failing_units = FailingUnits()
    for _ in range(STUCK_AFTER):
        assert failing_units.stuck == ""
        failing_units.pass_failed(ValueError("of this"))
    assert "ValueError: of this" in failing_units.stuck
    failing_units.pass_succeeded()
    assert failing_units.stuck == ""

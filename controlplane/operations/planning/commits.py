"""Commits of datasets: new states are stored together, with one statement for each table however
many datasets there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controlplane.core.model.branches import MAIN
from controlplane.core.model.events import ADOPTED, COMMITTED, Event, committed_body
from controlplane.core.plan import Commit
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.ports.store import Tx


def commit_all(
    tx: Tx, facts: StoreSnapshot, steps: Sequence[Commit], since_trace: int
) -> Sequence[Commit]:
    """Commit the states of these steps of one plan, and end the work under way for their datasets.

    Returns the steps that were carried out. Not among them are those whose dataset has another pin
    or another newest state than the plan knew: the next pass plans from there.
    """
    branch = facts.branch
    runs = [s.state.dataset for s in steps if facts.unfinished(s.state.dataset) is not None]
    tx.states.drop_unfinished(branch, runs)
    expected = _with_known_pin(tx, facts, steps)
    stale = tx.states.commit_all(branch, [step.state for step in expected])
    committed = [step for step in expected if step.state.dataset not in stale]
    for step in committed:
        _end(tx, facts, step)
    tx.traces.put_builds(
        {s.build: (s.state.root, s.state.schema) for s in committed if s.build is not None}
    )
    tx.traces.put_memos({key: memo for s in committed for key, memo in s.notes.items()})
    tx.queue.end_demands(branch, [step.state.dataset for step in committed])
    tx.events.put(_events(tx, branch, committed, since_trace))
    return committed


def _with_known_pin(tx: Tx, facts: StoreSnapshot, steps: Sequence[Commit]) -> list[Commit]:
    """Those whose pinned schema is as it was when the step was planned: an operator may have taken
    it back since."""
    pinning = [step.state.dataset for step in steps if step.pin is not None]
    pins = tx.states.pinned_schemas(facts.branch, pinning)
    moved = {dataset for dataset in pinning if pins.get(dataset) != facts.pinned(dataset)}
    return [step for step in steps if step.state.dataset not in moved]


def _end(tx: Tx, facts: StoreSnapshot, step: Commit) -> None:
    dataset = step.state.dataset
    # A branch has the pin of main until it has one of its own
    is_own = facts.branch == MAIN and step.pin == facts.pinned(dataset)
    if step.pin is not None and not is_own:
        tx.states.pin_schema(facts.branch, dataset, step.pin)
    if facts.building(dataset) is not None:
        tx.states.drop_building(facts.branch, dataset)


def _events(tx: Tx, branch: str, committed: Sequence[Commit], since_trace: int) -> list[Event]:
    adopted = adopted_counts(tx, _entered(committed), since_trace)
    events: list[Event] = []
    for step in committed:
        state = step.state
        body = committed_body(state)
        events.append(Event(COMMITTED, state.dataset, state.partitions, body, branch=branch))
        events += adopted_events(branch, state.dataset, adopted.get(state.dataset, step.adopted))
    return events


def _entered(committed: Sequence[Commit]) -> dict[str, Mapping[str, bytes]]:
    return {s.state.dataset: s.entered for s in committed if s.entered is not None}


def adopted_counts(
    tx: Tx, entered: Mapping[str, Mapping[str, bytes]], since_trace: int
) -> dict[str, int]:
    """How many of the partitions that enter each dataset no task executed for it since this
    trace."""
    keys = {task for tasks in entered.values() for task in tasks.values()}
    homes = tx.traces.executed(keys, since_trace)
    return {
        dataset: sum(homes.get(task) != dataset for task in tasks.values())
        for dataset, tasks in entered.items()
    }


def adopted_events(branch: str, dataset: str, adopted: int) -> list[Event]:
    return [Event(ADOPTED, dataset, adopted, branch=branch)] if adopted else []

"""How old the newest data of datasets is, where their components expect something of it
(`freshness`).

The age is the time since the commit of the first state with the present root: states that changed
nothing make no data newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from controlplane.core.compile.nodes import Desired, Sink, Source, Transform
from controlplane.core.model.answers import DatasetFreshness
from controlplane.core.model.answers.status import FreshnessEntry
from controlplane.core.model.states import State
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views
from controlplane.operations.planning.snapshot import StoreSnapshot
from controlplane.ports.store import Tx

STATES_FIRST = 10  # of each dataset, in one statement
STATES_MORE = 500  # of one dataset, where all of these have one root
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400


@dataclass(slots=True)
class LastChanges:
    """When the data of datasets changed last: the `seq` of the newest state, and that time.

    A looked-up time costs nothing until the dataset has a newer state.
    """

    seq_and_time: dict[str, tuple[int, float]] = field(default_factory=dict)

    def times(self, tx: Tx, branch: str, states: Mapping[str, State]) -> dict[str, float]:
        """By dataset; `states` are the newest ones."""
        unknown = [
            name
            for name, state in states.items()
            if self.seq_and_time.get(name, (0, 0.0))[0] != state.seq
        ]
        recent = tx.states.recent(branch, unknown, STATES_FIRST) if unknown else {}
        for name in unknown:
            line = recent.get(name) or (states[name],)
            self.seq_and_time[name] = (states[name].seq, _changed_at(tx, branch, line))
        return {name: self.seq_and_time[name][1] for name in states}


def _changed_at(tx: Tx, branch: str, states: Sequence[State]) -> float:
    """When the first of the newest states that have one root was committed. `states`: newest first.
    Rows that were rolled back to are as old as they were."""
    root, first = states[0].root, states[0]
    while states:
        for state in states:
            if state.root == root:
                first = state
            elif first.cause != "rollback":
                return first.at
        if states[-1].seq == 1:  # the first of all
            break
        states = tx.states.history(branch, first.dataset, STATES_MORE, states[-1].seq)
    return first.at


def expecting(nodes: Desired, datasets: Iterable[str]) -> dict[str, float]:
    """Those of these datasets that are to be fresh, with the age that they may have. Rows that are
    taken out of a dataset are not expected to come at all."""
    limits: dict[str, float] = {}
    for name in datasets:
        node = nodes.nodes[name]
        if node.is_copy or node.output:
            continue
        if node.component.freshness_s is not None:
            limits[name] = node.component.freshness_s
    return limits


def of_datasets(
    tx: Tx,
    branch: str,
    limits: Mapping[str, float],
    states: Mapping[str, State],
    changes: LastChanges,
) -> dict[str, DatasetFreshness]:
    """By dataset. One without data is measured from when its dataflow was last applied."""
    if not limits:
        return {}
    committed, now = {name: states[name] for name in limits if name in states}, tx.now()
    times = changes.times(tx, branch, committed)
    empty = {name.partition(".")[0] for name in limits if name not in committed}
    declared = (
        {flow: revision.at for flow, revision in tx.blueprints.revisions(branch, empty).items()}
        if empty
        else {}
    )
    return {
        name: _freshness(limit, times[name], now)
        if name in times
        else _empty(limit, declared, name, now)
        for name, limit in limits.items()
    }


def of_snapshot(facts: StoreSnapshot, datasets: Iterable[str]) -> dict[str, DatasetFreshness]:
    """The freshness of these datasets, where they declare a limit."""
    return of_datasets(
        facts.tx, facts.branch, expecting(facts.desired, datasets), facts.states, LastChanges()
    )


def listing(ctx: Context, branch: str) -> list[FreshnessEntry]:
    """The freshness of all datasets with a limit that the actor sees, in order of names."""
    with ctx.read_plan(branch) as (plan, facts):
        ages = of_snapshot(facts, (d.dataset for d in plan.decisions if ctx.sees(d.dataset)))
    return [{"dataset": name, **ages[name]} for name in sorted(ages)]


def of_dataset(
    tx: Tx, branch: str, node: Source | Transform | Sink, nodes: Desired, state: State | None
) -> DatasetFreshness | None:
    """None where nothing is expected."""
    states = {} if state is None else {node.dataset: state}
    return of_datasets(tx, branch, expecting(nodes, [node.dataset]), states, LastChanges()).get(
        node.dataset
    )


def _freshness(limit: float, at: float, now: float) -> DatasetFreshness:
    age = max(0.0, now - at)
    is_late = age > limit
    reason = (
        f"its newest data is {in_words(age)} old, more than {in_words(limit)}" if is_late else None
    )
    return {
        "limit_s": limit,
        "age_s": round(age, 3),
        "at": json_views.instant(at),
        "late": is_late,
        "reason": reason,
    }


def _empty(limit: float, declared: Mapping[str, float], name: str, now: float) -> DatasetFreshness:
    waited = max(0.0, now - declared.get(name.partition(".")[0], now))
    is_late = waited > limit
    reason = f"it has no data, {in_words(waited)} after its dataflow was applied, which is more than {in_words(limit)}"
    return {
        "limit_s": limit,
        "age_s": None,
        "at": None,
        "late": is_late,
        "reason": reason if is_late else None,
    }


def in_words(seconds: float) -> str:
    """In two units at most, and never less than it is: 45 s, 2 min 30 s, 26 h, 27 h 5 min, 3 d 2
    h."""
    for size, name, part, part_name in (
        (DAY_S, "d", HOUR_S, "h"),
        (HOUR_S, "h", MINUTE_S, "min"),
        (MINUTE_S, "min", 1, "s"),
    ):
        if seconds >= (2 * DAY_S if size == DAY_S else size):
            count, rest = divmod(ceil(seconds / part), size // part)
            return f"{count} {name}" + (f" {rest} {part_name}" if rest else "")
    return f"{ceil(seconds)} s"

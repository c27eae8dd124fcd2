"""Which earlier states a rollback goes back to: of one dataset, or of all of a dataflow at a time.

A read component goes back as well: the others were made of its listing at that time. Rows that were
taken out of a dataset by its rules come with the dataset, as the same tasks make both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from controlplane.core.blueprint import QUARANTINE
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import NotFound
from controlplane.core.model.addresses import Moment, Point
from controlplane.core.model.states import State
from controlplane.operations.inspect import time_travel
from controlplane.operations.inspect.datasets import kept_states
from controlplane.operations.planning.snapshot import targeted
from controlplane.ports.store import Tx

STATES_LOOKED_AT = 1_000  # of each dataset, where a time is looked for at which all agree


@dataclass(frozen=True, slots=True)
class Chosen:
    """States to go back to, by dataset, and the states of each up to then, newest first.
    `left_out`: datasets that had no data yet."""

    states: Mapping[str, State]
    lines: Mapping[str, Sequence[State]]
    left_out: list[str]


def choose(tx: Tx, branch: str, nodes: Desired, target: str, to: Point) -> Chosen:
    """Raises NotFound, and GenerationGone."""
    names = [name for name in targeted(nodes, target) if nodes.nodes[name].has_rows]
    if not names:
        raise NotFound(
            f"{target} is a copy, which has no generations: roll back the dataset that it is written from"
        )
    if isinstance(to, Moment):
        return _at(tx, branch, target, _with_quarantines(nodes, names), to)
    if target not in nodes.nodes:
        raise NotFound(
            f"{target} is a dataflow, and a generation is one of a dataset: give a time, or name a dataset"
        )
    state = time_travel.state_of(tx, branch, target, to)
    beside = [name for name in _with_quarantines(nodes, names) if name != target]
    if not beside:
        return Chosen({target: state}, {}, [])
    chosen = _at(tx, branch, target, beside, Moment.of(state.at))
    return Chosen({target: state, **chosen.states}, chosen.lines, chosen.left_out)


def _with_quarantines(nodes: Desired, names: Sequence[str]) -> list[str]:
    all_names = {*names, *(name + QUARANTINE for name in names)}
    return [name for name in nodes.order if name in all_names]


def _at(tx: Tx, branch: str, target: str, names: Iterable[str], at: Moment) -> Chosen:
    states: dict[str, State] = {}
    lines: dict[str, Sequence[State]] = {}
    left_out: list[str] = []
    for name in names:
        line = _line(tx, branch, name, at)
        if line:
            states[name], lines[name] = line[0], line
        else:
            left_out.append(name)
    if not states and target in left_out:
        raise NotFound(f"dataset {target} had no data at {at}")
    if not states and not target.count("."):
        raise NotFound(f"no dataset of dataflow {target} had data at {at}")
    return Chosen(states, lines, left_out)


def _line(tx: Tx, branch: str, name: str, at: Moment) -> list[State]:
    """The states of a dataset up to a time, newest first; empty if it had none yet. Raises
    GenerationGone."""
    try:
        time_travel.state_of(tx, branch, name, at)
    except NotFound:
        return []
    before = (state for state in kept_states(tx, branch, name) if state.at < at.end)
    return list(islice(before, STATES_LOOKED_AT))


# --- whether they go together -----------------------------------------------------------------------


def disagreement(states: Iterable[State]) -> tuple[str, str, str] | None:
    """Two datasets that reflect different states of a source, and that source; None if there are
    none."""
    by_source: dict[str, State] = {}
    for state in states:
        for source, root in state.cut.items():
            first = by_source.setdefault(source, state)
            if first.cut[source] != root:
                return first.dataset, state.dataset, source
    return None


def last_agreeing(chosen: Chosen) -> float | None:
    """The last time before at which these datasets reflected the same of each source; None if none
    is kept."""
    for at, states in _before(chosen.lines):
        if disagreement(states) is None:
            return at
    return None


def _before(lines: Mapping[str, Sequence[State]]) -> Iterator[tuple[float, list[State]]]:
    """Combinations of states that there were, the last ones first, and when the newest state of
    each came."""
    place = dict.fromkeys(lines, 0)
    while place:
        states = [lines[name][at] for name, at in place.items()]
        newest = max(state.at for state in states)
        yield newest, states
        for name in [state.dataset for state in states if state.at == newest]:
            while place[name] < len(lines[name]) and lines[name][place[name]].at == newest:
                place[name] += 1
            if place[name] == len(lines[name]):
                if lines[name][-1].seq > 1:
                    return  # what it was before is not kept
                del place[name]

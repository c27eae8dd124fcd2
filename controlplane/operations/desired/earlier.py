"""Which earlier states a rollback goes back to: of one dataset, or of all of a dataflow at a time.

A read component goes back as well: what it had listed then is what the others were made of. Rows that were taken out of
a dataset by its rules come with the dataset, as the same tasks make both. Does not belong here: writing anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.core.blueprint import QUARANTINE
from controlplane.core.compile.nodes import Desired, Sink
from controlplane.core.errors import BadMoment, GenerationGone, NotFound
from controlplane.core.model.states import State
from controlplane.operations.inspect.datasets import kept_states
from controlplane.operations.inspect.views import instant
from controlplane.operations.planning.snapshot import targeted
from controlplane.ports.store import Tx

MILLISECOND_US = 1_000
STATES_LOOKED_AT = 1_000  # of each dataset, where a time is looked for at which all agree


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in seconds since 1970."""

    at: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """States to go back to, by dataset, and what each had been in up to then, newest first. `left_out`: datasets that
    had no data yet."""

    states: Mapping[str, State]
    lines: Mapping[str, Sequence[State]]
    left_out: list[str]


def moment(text: str) -> Moment:
    """A time in ISO 8601, in UTC where nothing else is said. Commits are told to the millisecond, so a time stands for
    all of its millisecond. Raises BadMoment."""
    try:
        found = datetime.fromisoformat(text.strip())
        found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
        whole = found.microsecond % MILLISECOND_US == 0
        return Moment(found.timestamp() + (MILLISECOND_US - 1) / 1e6 * whole)
    except (ValueError, OverflowError):
        raise BadMoment(text) from None


def exact(at: float) -> str:
    """A time in words that `moment` reads as this time or just after it."""
    return datetime.fromtimestamp(math.ceil(at * 1e6) / 1e6, UTC).isoformat()


def choose(tx: Tx, branch: str, nodes: Desired, target: str, to: int | Moment) -> Chosen:
    """Raises NotFound, and GenerationGone."""
    names = [name for name in targeted(nodes, target) if not isinstance(nodes.nodes[name], Sink)]
    if not names:
        raise NotFound(f"{target} is a copy, which has no generations: roll back the dataset that it is written from")
    if isinstance(to, Moment):
        return _at(tx, branch, target, _with_quarantines(nodes, names), to.at)
    if target not in nodes.nodes:
        raise NotFound(f"{target} is a dataflow, and a generation is one of a dataset: give a time, or name a dataset")
    state = _generation(tx, branch, target, to)
    beside = [name for name in _with_quarantines(nodes, names) if name != target]
    if not beside:
        return Chosen({target: state}, {}, [])
    found = _at(tx, branch, target, beside, state.at)
    return Chosen({target: state, **found.states}, found.lines, found.left_out)


def _with_quarantines(nodes: Desired, names: Sequence[str]) -> list[str]:
    wanted = {*names, *(name + QUARANTINE for name in names)}
    return [name for name in nodes.order if name in wanted]


def _generation(tx: Tx, branch: str, name: str, generation: int) -> State:
    oldest: State | None = None
    newest: State | None = None
    for state in kept_states(tx, branch, name):
        if state.generation == generation:
            return state
        newest, oldest = newest or state, state
    if newest is None or oldest is None:
        raise NotFound(f"dataset {name} has no committed data yet")
    if not 0 < generation <= newest.generation:
        raise NotFound(f"dataset {name} has no generation {generation}: its newest is {newest.generation}")
    raise _gone(name, f"generation {generation}", oldest)


def _at(tx: Tx, branch: str, target: str, names: Iterable[str], at: float) -> Chosen:
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
        raise NotFound(f"dataset {target} had no data at {instant(at)}")
    if not states and not target.count("."):
        raise NotFound(f"no dataset of dataflow {target} had data at {instant(at)}")
    return Chosen(states, lines, left_out)


def _line(tx: Tx, branch: str, name: str, at: float) -> list[State]:
    """The states of a dataset up to a time, newest first; empty if it had none yet. Raises GenerationGone."""
    line: list[State] = []
    oldest: State | None = None
    for state in kept_states(tx, branch, name):
        oldest = state
        if state.at <= at:
            line.append(state)
        if len(line) == STATES_LOOKED_AT:
            break
    if not line and oldest is not None and oldest.seq > 1:
        raise _gone(name, f"what it was at {instant(at)}", oldest)
    return line


def _gone(name: str, what: str, oldest: State) -> GenerationGone:
    return GenerationGone(name, what, oldest.generation, instant(oldest.at))


# --- whether they go together -----------------------------------------------------------------------


def disagreement(states: Iterable[State]) -> tuple[str, str, str] | None:
    """Two datasets that reflect different states of a source, and that source; None if there are none."""
    seen: dict[str, State] = {}
    for state in states:
        for source, root in state.cut.items():
            first = seen.setdefault(source, state)
            if first.cut[source] != root:
                return first.dataset, state.dataset, source
    return None


def last_agreeing(found: Chosen) -> float | None:
    """The last time before at which these datasets reflected the same of each source; None if none is kept."""
    for at, states in _before(found.lines):
        if disagreement(states) is None:
            return at
    return None


def _before(lines: Mapping[str, Sequence[State]]) -> Iterator[tuple[float, list[State]]]:
    """Combinations of states that there were, the last ones first, and when the newest state of each came."""
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

"""States of several datasets that were made of the same sources. Pure.

A cut says of each source which version a state reflects (and of each salt, which stands under the
name of its maker). Versions have no order of their own: the order of the source's states decides
which came first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from controlplane.core.errors import GenerationGone, NotConsistent
from controlplane.core.model.states import State

WALKED = 5_000  # states of a dataset, from the newest back
StatesOf: TypeAlias = Callable[[str], Iterator[State]]
"""Those of a dataset that are kept and count, newest first."""


def agree(states: Iterable[State]) -> bool:
    """Whether none of them has a source in another version than the others."""
    versions: dict[str, bytes] = {}
    pairs = (pair for state in states for pair in state.cut.items())
    return all(versions.setdefault(source, version) == version for source, version in pairs)


def consistent(datasets: Iterable[str], states: StatesOf) -> dict[str, State | None]:
    """The newest states that agree: a dataset that reflects a newer version of a source than
    another one steps back. None where a dataset had no data of these versions. Where a source came
    back to a version that it had before, newer ones may agree as well. Raises GenerationGone and
    NotConsistent where there are no such states."""
    names, past = list(datasets), _Past(states)
    chosen: dict[str, State | None] = dict.fromkeys(names)
    there = names
    while there:
        lines = [_DatasetLine(name, past.of(name)) for name in there]
        _step_back(lines, past)
        chosen |= {line.dataset: line.state for line in lines}
        without = [line.dataset for line in lines if line.state is None]
        if not without:
            break
        # Datasets without a state hold the others back no longer
        there = [name for name in there if name not in without]
    if not agree(state for state in chosen.values() if state is not None):
        raise NotConsistent(
            "these datasets were made of versions of their sources that are not kept any more"
        )
    return chosen


def _step_back(lines: Sequence[_DatasetLine], past: _Past) -> None:
    """Until they agree, or one of them has no state left."""
    versions = _Versions(past)
    while all(line.state for line in lines) and (ahead := _ahead(lines, versions)):
        for line in lines:
            if line.dataset in ahead:
                line.step_back(ahead[line.dataset])


def _ahead(lines: Iterable[_DatasetLine], versions: _Versions) -> dict[str, str]:
    """The datasets that have to step back, each with what for, in words."""
    there = {line.dataset: line.state for line in lines if line.state is not None}
    numbers = {dataset: versions.numbers(dataset, state) for dataset, state in there.items()}
    last: dict[str, str] = {}  # source -> a dataset that has the oldest version of it
    for dataset, of_sources in numbers.items():
        for source, number in of_sources.items():
            if source not in last or number < numbers[last[source]][source]:
                last[source] = dataset
    reasons: dict[str, str] = {}
    for dataset, state in there.items():
        for source, number in numbers[dataset].items():
            other = last[source]
            is_newer = number > numbers[other][source]
            if is_newer and state.cut[source] != there[other].cut[source]:
                reasons[dataset] = f"{other} has an older version of {source.partition('/')[0]}"
    return reasons


@dataclass(slots=True)
class _DatasetLine:
    """One dataset, and the state that it has stepped back to; None before its first."""

    dataset: str
    states: _Walked
    place: int = 0

    @property
    def state(self) -> State | None:
        return self.states.at(self.place)

    def step_back(self, reason: str) -> None:
        before = self.state
        self.place += 1
        if self.place > WALKED:
            raise NotConsistent(
                f"{reason} than {WALKED:,} states of {self.dataset}; bring it up to date first"
            )
        if self.state is None and before is not None and before.seq != 1:
            raise GenerationGone(f"{reason}, and {self.dataset} keeps none that was made of that")


@dataclass(slots=True)
class _Versions:
    """Numbers of versions of sources: the `seq` of the newest state of the source that had it when
    it was read. Who steps back has older ones, so the states of a source are walked once for each
    dataset."""

    past: _Past
    places: dict[tuple[str, str], int] = field(default_factory=dict)

    def numbers(self, dataset: str, state: State) -> dict[str, int]:
        return {
            source: self._number(dataset, state, source, version)
            for source, version in state.cut.items()
        }

    def _number(self, dataset: str, state: State, source: str, version: bytes) -> int:
        """0 where no state that is kept has it: it is older than those that are."""
        line = self.past.of(source.partition("/")[0])
        place = self.places.get((dataset, source), 0)
        while (of := line.at_or_gone(place)) is not None:
            if of.at <= state.at and of.cut.get(source) == version:
                break
            place += 1
        self.places[dataset, source] = place
        return 0 if of is None else of.seq


@dataclass(slots=True)
class _Past:
    """The states of datasets and of their sources, each read once."""

    states: StatesOf
    walked: dict[str, _Walked] = field(default_factory=dict)

    def of(self, dataset: str) -> _Walked:
        if dataset not in self.walked:
            self.walked[dataset] = _Walked(islice(self.states(dataset), WALKED + 1))
        return self.walked[dataset]


@dataclass(slots=True)
class _Walked:
    """States of a dataset, newest first, that are read as far as they are needed."""

    older: Iterator[State]
    read: list[State] = field(default_factory=list)

    def at(self, place: int) -> State | None:
        """None behind the last."""
        self.read.extend(islice(self.older, max(0, place + 1 - len(self.read))))
        return self.read[place] if place < len(self.read) else None

    def at_or_gone(self, place: int) -> State | None:
        """None also where the dataset keeps nothing of that time."""
        try:
            return self.at(place)
        except GenerationGone:
            return None

"""States of many datasets, newest first, read as far back as somebody has to look. Does not belong here: what for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from controlplane.core.model.states import State
from controlplane.ports.store import Tx

FIRST_STATES: Final = 4_000  # of all datasets together, at the first look
FEWEST, MOST = 2, 40  # of each, then
MOST_STATES: Final = 20_000  # of all together, for one answer
DEEPER: Final = 4  # times as many states of a dataset, and of as many more datasets, at each look further back
TOGETHER: Final = 16  # datasets, at the first look further back


@dataclass(slots=True)
class PastStates:
    """All that is kept behind `horizon`, of these datasets. `states`: newest first."""

    tx: Tx
    branch: str
    states: dict[str, tuple[State, ...]]
    whole: set[str] = field(default_factory=set)  # of which no earlier state is kept
    together: int = TOGETHER

    @classmethod
    def of(cls, tx: Tx, branch: str, datasets: Collection[str]) -> PastStates:
        each = max(FEWEST, min(MOST, FIRST_STATES // max(1, len(datasets))))
        return cls(tx, branch, tx.recent_states(branch, sorted(datasets), each))

    @property
    def horizon(self) -> float:
        """What was committed up to then is not all known."""
        return max((states[-1].at for states in self._cut_off.values()), default=0.0)

    @property
    def _cut_off(self) -> Mapping[str, tuple[State, ...]]:
        return {name: states for name, states in self.states.items() if states[-1].seq > 1}

    def deepen(self) -> bool:
        """Know more of the datasets that the horizon is there for; False where nothing more is kept, or is to be read.
        Of what retention took nobody knows what followed from it: the horizon stays there."""
        horizon, open_ends = self.horizon, self._cut_off.keys() - self.whole
        if any(self.states[name][-1].at == horizon for name in self.whole & self._cut_off.keys()):
            return False
        latest = sorted(open_ends, key=lambda name: (-self.states[name][-1].at, name))[: self.together]
        room = MOST_STATES - sum(map(len, self.states.values()))
        deepest = max((len(self.states[name]) for name in latest), default=0) * DEEPER
        latest = latest[: room // max(1, deepest)]
        if not latest:
            return False
        found = self.tx.recent_states(self.branch, latest, deepest)
        for name in latest:
            self.states[name] = found[name]
            if len(found[name]) < deepest:
                self.whole.add(name)
        self.together *= DEEPER
        return True

    def before(self, dataset: str, seq: int) -> State | None:
        """The state before the one with this number."""
        return next((state for state in self.states.get(dataset, ()) if state.seq < seq), None)

    def was_there(self, dataset: str, at: float) -> bool:
        """Whether it had been committed by then."""
        states = self.states.get(dataset)
        return states is not None and (states[-1].seq > 1 or states[-1].at <= at)

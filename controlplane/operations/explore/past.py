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
DEEPER: Final = 64  # more states of a dataset
TOGETHER: Final = 16  # datasets that are looked at further at a time


@dataclass(slots=True)
class PastStates:
    """All that is kept behind `horizon`, of these datasets. `states`: newest first, without gaps."""

    tx: Tx
    branch: str
    states: dict[str, list[State]]
    whole: set[str] = field(default_factory=set)  # of which no earlier state is kept

    @classmethod
    def of(cls, tx: Tx, branch: str, datasets: Collection[str]) -> PastStates:
        each = max(FEWEST, min(MOST, FIRST_STATES // max(1, len(datasets))))
        found = tx.recent_states(branch, sorted(datasets), each)
        return cls(tx, branch, {name: list(states) for name, states in found.items()})

    @property
    def horizon(self) -> float:
        """What was committed up to then is not all known."""
        return max((states[-1].at for states in self._cut_off.values()), default=0.0)

    @property
    def _cut_off(self) -> Mapping[str, list[State]]:
        return {name: states for name, states in self.states.items() if states[-1].seq > 1}

    def deepen(self) -> bool:
        """Know more of the datasets that the horizon is there for; False where nothing more is kept, or is to be read.
        Of what retention took nobody knows what followed from it: the horizon stays there."""
        open_ends = {name: states for name, states in self._cut_off.items() if name not in self.whole}
        latest = sorted(open_ends, key=lambda name: (-open_ends[name][-1].at, name))
        is_final = any(self.states[name][-1].at >= self.horizon for name in self.whole & self._cut_off.keys())
        if not latest or is_final or sum(map(len, self.states.values())) >= MOST_STATES:
            return False
        for name in latest[:TOGETHER]:
            more = self.tx.history(self.branch, name, DEEPER, self.states[name][-1].seq)
            self.states[name] += more
            if len(more) < DEEPER:
                self.whole.add(name)
        return True

    def before(self, dataset: str, seq: int) -> State | None:
        """The state before the one with this number."""
        return next((state for state in self.states.get(dataset, ()) if state.seq < seq), None)

    def was_there(self, dataset: str, at: float) -> bool:
        """Whether it had been committed by then."""
        states = self.states.get(dataset)
        return states is not None and (states[-1].seq > 1 or states[-1].at <= at)

"""States of many datasets, newest first, read as far back as a caller needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controlplane.core.model.states import State
from controlplane.ports.store import Tx

FIRST_STATES: Final = 512  # of all datasets together, at the first look behind the newest ones
FEWEST, MOST = 2, 40  # of each, then
MOST_STATES: Final = 20_000  # of all together, for one answer
# Times as many states of a dataset, and of as many more datasets, at each look further back
DEEPER: Final = 4
TOGETHER: Final = 128  # datasets, at the first look


@dataclass(slots=True)
class PastStates:
    """All that is kept behind `horizon`, of these datasets. `states`: newest first. It begins with
    the newest one of each, which planning has at hand: of 5,000 datasets those are read further
    back that moved last."""

    tx: Tx
    branch: str
    states: dict[str, tuple[State, ...]]
    exhausted: set[str] = field(default_factory=set)  # of which no earlier state is kept
    together: int = TOGETHER

    @classmethod
    def of(cls, tx: Tx, branch: str, newest: Mapping[str, State]) -> PastStates:
        return cls(tx, branch, {name: (state,) for name, state in newest.items()})

    @property
    def horizon(self) -> float:
        """The time up to which commits are not all known."""
        return max((states[-1].at for states in self._cut_off.values()), default=0.0)

    @property
    def _cut_off(self) -> Mapping[str, tuple[State, ...]]:
        return {name: states for name, states in self.states.items() if states[-1].seq > 1}

    def deepen(self) -> bool:
        """Read earlier states of the datasets that set the horizon. False where no more are kept,
        or none may be read. The horizon stays where retention dropped states: the effects of
        dropped commits are unknown."""
        cut_off = self._cut_off
        horizon = max((states[-1].at for states in cut_off.values()), default=0.0)
        if any(self.states[name][-1].at == horizon for name in self.exhausted & cut_off.keys()):
            return False
        open_ends = cut_off.keys() - self.exhausted
        latest = sorted(open_ends, key=lambda name: (-self.states[name][-1].at, name))[
            : self.together
        ]
        if not latest:
            return False
        count = len(self.states[latest[0]])
        depth = count * DEEPER if count > 1 else max(FEWEST, min(MOST, FIRST_STATES // len(latest)))
        room = MOST_STATES - sum(map(len, self.states.values()))
        alike = [name for name in latest if len(self.states[name]) == count][: room // depth]
        if not alike:
            return False
        recent = self.tx.states.recent(self.branch, alike, depth)
        for name in alike:
            self.states[name] = recent[name]
            if len(recent[name]) < depth:
                self.exhausted.add(name)
        self.together *= DEEPER
        return True

    def before(self, dataset: str, seq: int) -> State | None:
        """The state before the one with this number."""
        return next((state for state in self.states.get(dataset, ()) if state.seq < seq), None)

    def was_there(self, dataset: str, at: float) -> bool:
        """Whether it had been committed by then."""
        states = self.states.get(dataset)
        return states is not None and (states[-1].seq > 1 or states[-1].at <= at)

"""A thread that lets tables follow states, apart from the loop: a slow log delays no computation.

Does not belong here: what a table holds (`operations.projections`), how its log is written (`lake`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from controlplane import logs
from controlplane.core import wire
from controlplane.core.model.leases import Deposed
from controlplane.core.model.states import State
from controlplane.operations.projections import publish
from controlplane.ports.lake import Publisher
from controlplane.ports.store import Store
from controlplane.reconciler.wake import Wake

TRIES = 3  # after which a run ends without the table; a service goes on trying
RETRY_S = 1.0  # the shortest wait after a failure; doubled with each
IDLE_S = 30.0  # the longest wait for a nudge
LONGEST_REASON = 4_000  # characters of what is told of a table that cannot follow
log = logs.get("publishing")


@dataclass(frozen=True, slots=True)
class Failing:
    """A table that could not follow so many times in a row, and when it is tried again."""

    failures: int
    again_at: float


class Publishing:
    """Of one branch. The thread starts with the first table that is behind. `published` is called after a round in
    which some table followed."""

    def __init__(
        self, store: Store, namespace: str, branch: str, publisher: Publisher, published: Callable[[], None]
    ) -> None:
        self._store, self._namespace, self._branch = store, namespace, branch
        self._publisher, self._published = publisher, published
        self._wake = Wake()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing: dict[str, Failing] = {}  # by dataset
        self._waiting: dict[str, State] = {}  # by dataset: not known to be followed yet
        self._done: dict[str, int] = {}  # dataset -> seq of the state that its table holds
        self.count = 0  # tables that are behind

    def nudge(self, states: Iterable[State]) -> None:
        """`states`: the newest of each dataset in scope."""
        waiting = [state for state in states if self._done.get(state.dataset) != state.seq]
        self._waiting = {state.dataset: state for state in waiting}
        if self._thread is None and waiting and not self._stop.is_set() and self._behind():
            self._thread = threading.Thread(target=self._run, name="publishing", daemon=True)
            self._thread.start()
        self._wake.notify()

    def look_again(self) -> None:
        """At all tables: some may not be as they were left."""
        self._done.clear()

    def can_go_on(self) -> bool:
        """Some table is behind and has not failed again and again."""
        return any(self._failures(state.dataset) < TRIES for state in self._behind())

    def close(self) -> None:
        self._stop.set()
        self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _behind(self) -> tuple[State, ...]:
        """States whose table has to follow; what is found done is not looked at again."""
        waiting = dict(self._waiting)
        found = publish.behind(self._store, self._namespace, self._branch, waiting.values())
        late = {state.dataset for state in found}
        self._done.update((s.dataset, s.seq) for s in waiting.values() if s.dataset not in late)
        return found

    def _failures(self, dataset: str) -> int:
        failing = self._failing.get(dataset)
        return failing.failures if failing is not None else 0

    def _run(self) -> None:
        while not self._stop.is_set():
            seen = self._wake.count
            try:
                done = self._round()
            except Deposed:
                return  # the loop is told the same
            except BaseException as e:  # the thread must not end unseen: no table would follow any more
                log.exception("publishing failed", error=str(e))
                done = 0
            if done:
                self._published()
            else:
                self._wake.wait(RETRY_S if self._failing else IDLE_S, seen)

    def _round(self) -> int:
        """How many tables have followed."""
        done, now = 0, time.monotonic()
        states = self._behind()
        self.count = len(states)
        for state in states:
            failing = self._failing.get(state.dataset)
            if self._stop.is_set() or (failing is not None and failing.again_at > now):
                continue
            if self._follows(state, now):
                done += 1
                self.count -= 1
        return done

    def _follows(self, state: State, now: float) -> bool:
        try:
            publish.publish(self._store, self._namespace, state, self._publisher)
        except Deposed:
            raise
        except Exception as e:  # noqa: BLE001  # whatever it is, it is this table's alone
            failures = self._failures(state.dataset)
            self._failing[state.dataset] = Failing(failures + 1, now + RETRY_S * 2 ** min(failures, 8))
            log.warning("publishing failed", dataset=state.dataset, error=str(e))
            publish.note_failure(self._store, self._namespace, state, wire.printable(str(e))[:LONGEST_REASON])
            return False
        self._failing.pop(state.dataset, None)
        return True

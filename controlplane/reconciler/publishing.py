"""A thread that lets tables follow states, apart from the loop: a slow log delays no computation.

Main's tables come first; then tables that no branch should have are removed; then those of branches
follow. Does not belong here: what a table holds (`operations.projections`), how its log is written
(`lake`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from controlplane import logs
from controlplane.core import wire
from controlplane.core.model.branches import MAIN
from controlplane.core.model.leases import Deposed
from controlplane.core.model.projections import Publication
from controlplane.core.model.states import State
from controlplane.operations.projections import branch_tables, publish
from controlplane.ports.lake import ObjectStore, Publisher
from controlplane.ports.store import Store
from controlplane.reconciler.wake import WakeCounter

TRIES = 3  # after which a run ends without the table; a service goes on trying
RETRY_S = 1.0  # the shortest wait after a failure; doubled with each
IDLE_S = 30.0  # the longest wait for a nudge
LONGEST_REASON = 4_000  # characters of the message about a table that cannot follow
log = logs.get("publishing")

TableKey: TypeAlias = tuple[str, str]
"""A branch and a dataset."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A table that could not follow so many times in a row, and when it is tried again."""

    failures: int
    again_at: float


class Publishing:
    """Publish tables of main, and of branches that publish. The thread starts with the first table
    that is behind, or is to be removed. `published` is called after a round that published or
    removed a table."""

    def __init__(
        self,
        store: Store,
        namespace: str,
        publisher: Publisher,
        lake: ObjectStore,
        published: Callable[[], None],
    ) -> None:
        self._store, self._namespace = store, namespace
        self._publisher, self._lake, self._published = publisher, lake, published
        self._wake = WakeCounter()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failing: dict[TableKey, Failing] = {}
        self._waiting: dict[TableKey, State] = {}  # not known to be followed yet
        # Seq and time of the state that a table holds
        self._done: dict[TableKey, tuple[int, float]] = {}
        # Tables that branches were to have at the last nudge
        self._of_branches: frozenset[TableKey] | None = None
        self._may_be_left = False  # some table may have to go
        self.count = 0  # tables that are behind

    def nudge(self, states: Iterable[State]) -> None:
        """`states`: the newest of each dataset in scope, those of main first; of branches, those
        that they publish."""
        by_key = {_key(state): state for state in states}
        self._waiting = {
            key: state for key, state in by_key.items() if self._done.get(key) != _which(state)
        }
        of_branches = frozenset(key for key in by_key if key[0] != MAIN)
        if of_branches != self._of_branches:  # true at first: an earlier process may have died
            self._of_branches, self._may_be_left = of_branches, True
        if self._thread is None and not self._stop.is_set() and (self._behind() or self._left()):
            self._thread = threading.Thread(target=self._run, name="publishing", daemon=True)
            self._thread.start()
        self._wake.notify()

    def look_again(self) -> None:
        """At all tables: some may not be as they were left."""
        self._done.clear()

    def can_go_on(self) -> bool:
        """Some table is behind, or is to go, and has not failed again and again."""
        keys = [*map(_key, self._behind()), *map(_table, self._left())]
        return any(self._failures(key) < TRIES for key in keys)

    def close(self) -> None:
        self._stop.set()
        self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _behind(self) -> tuple[State, ...]:
        """States whose table has to follow; finished ones are remembered and not checked again."""
        waiting = dict(self._waiting)
        if not waiting:
            return ()
        states = publish.behind(self._store, self._namespace, waiting.values())
        late = set(map(_key, states))
        self._done.update((key, _which(state)) for key, state in waiting.items() if key not in late)
        return states

    def _left(self) -> tuple[Publication, ...]:
        """Tables that have to go. The store is not read until the datasets of branches have
        changed."""
        if not self._may_be_left:
            return ()
        self._may_be_left = False  # first: a nudge meanwhile is a reason to look again
        try:
            publications = branch_tables.left_over(self._store, self._namespace)
        except BaseException:
            self._may_be_left = True
            raise
        if publications:
            self._may_be_left = True
        return publications

    def _failures(self, key: TableKey) -> int:
        failing = self._failing.get(key)
        return failing.failures if failing is not None else 0

    def _run(self) -> None:
        while not self._stop.is_set():
            count = self._wake.count
            try:
                done = self._round()
            except Deposed:
                return  # the loop gets Deposed as well
            except (
                BaseException
            ) as e:  # the thread must not end unseen: no table would follow any more
                log.exception("publishing failed", error=str(e))
                done = 0
            if done:
                self._published()
            else:
                self._wake.wait(RETRY_S if self._failing else IDLE_S, count)

    def _round(self) -> int:
        """How many tables have followed, or gone."""
        states, left = self._behind(), self._left()
        self.count = len(states)
        open_keys = {*map(_key, states), *map(_table, left)}
        self._failing = {key: failing for key, failing in self._failing.items() if key in open_keys}
        return (
            sum(self._follows(state) for state in states if state.branch == MAIN)
            + sum(self._went(table) for table in left)
            + sum(self._follows(state) for state in states if state.branch != MAIN)
        )

    def _follows(self, state: State) -> bool:
        outcome = self._attempt(_key(state), partial(self._followed, state))
        if isinstance(outcome, Exception):
            reason = wire.printable(str(outcome))[:LONGEST_REASON]
            publish.note_failure(self._store, self._namespace, state, reason)
        self.count -= outcome is True
        return outcome is True

    def _followed(self, state: State) -> bool:
        if state.branch != MAIN:
            return branch_tables.follow(
                self._store, self._namespace, state, self._publisher, self._lake
            )
        publish.publish(self._store, self._namespace, state, self._publisher)
        return True

    def _went(self, table: Publication) -> bool:
        return self._attempt(_table(table), partial(self._deleted, table)) is True

    def _deleted(self, table: Publication) -> bool:
        branch_tables.delete(self._store, self._namespace, table, self._lake)
        return True

    def _attempt(self, key: TableKey, work: Callable[[], bool]) -> bool | Exception:
        """What it says, or how it failed; False if it is not to be tried now."""
        now, failing = time.monotonic(), self._failing.get(key)
        if self._stop.is_set() or (failing is not None and failing.again_at > now):
            return False
        try:
            done = work()
        except Deposed:
            raise
        except Exception as e:  # noqa: BLE001  # any failure is this table's alone
            failures = self._failures(key)
            self._failing[key] = Failing(failures + 1, now + RETRY_S * 2 ** min(failures, 8))
            log.warning("publishing failed", branch=key[0], dataset=key[1], error=str(e))
            return e
        self._failing.pop(key, None)
        return done


def _key(state: State) -> TableKey:
    return state.branch, state.dataset


def _table(publication: Publication) -> TableKey:
    return publication.branch, publication.dataset


def _which(state: State) -> tuple[int, float]:
    """The time distinguishes states of branches that had the same name one after the other."""
    return state.seq, state.at

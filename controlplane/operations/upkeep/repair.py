"""What the lake lost is made again.

Fragments without their files are given up, so that no trace is a hit because of them, and datasets
that have one plan all their partitions again: remembered results are adopted, the rest is computed.
The same rows are the same fragment, with new files, so nothing that follows from them is computed
again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TypeAlias, TypeVar

from controlplane.core import tree
from controlplane.core.errors import CorruptNode, StaleState
from controlplane.core.model.events import Event
from controlplane.core.model.retention import Files
from controlplane.core.model.states import LOST, PARTED, PARTS, PartialState, State
from controlplane.operations.projections import compaction
from controlplane.operations.upkeep.fsck import RowCheck, lost_files
from controlplane.operations.upkeep.pointers import branches
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Store, Tx

T = TypeVar("T")
FRAGMENTS = 1_000_000  # that one repair gives up, so that memory holds them
A_TIME = 5_000
ROUNDS = 10  # in which datasets may have moved on since they were looked at

Lost: TypeAlias = Mapping[str, Set[bytes]]
"""Fragments that are given up, by the partition keys under which trees name them."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """`fragments` were given up. `datasets` are made whole again, as `branch/dataset`. Not
    `complete`: repeat it."""

    fragments: int
    datasets: tuple[str, ...]
    complete: bool


def repair(
    store: Store, namespace: str, lake: ObjectStore, reading: RowCheck | None = None
) -> Repaired:
    """Give up fragments whose files are gone or have another size, and have the datasets that they
    are in made whole. With a `reading` also those whose rows differ from the written ones.

    Repeating it is harmless. A permanent loss (rows of a source that are there no more) fails or is
    gone then, as with any other change of a source.
    """
    with store.read(namespace) as tx:
        damaged = _damaged(tx, reading) if reading else ()
        lost = islice(chain(_lost(tx, lake), damaged), FRAGMENTS)
        losses = list({of.fragment: of.is_pack for of in lost}.items())
    for start in range(0, len(losses), A_TIME):
        with store.begin(namespace) as tx:
            # What a pass has found by now, and would commit, may be given up here
            tx.upkeep.begin_collection()
            some = losses[start : start + A_TIME]
            tx.traces.condemn([id for id, is_pack in some if not is_pack])
            compaction.forget(tx, [id for id, is_pack in some if is_pack])
    marked = set[str]()
    for _ in range(ROUNDS):
        again = _mark(store, namespace, marked)
        if not again:
            break
    return Repaired(len(losses), tuple(sorted(marked)), len(losses) < FRAGMENTS and not again)


def _lost(tx: Tx, lake: ObjectStore) -> Iterator[Files]:
    before = None
    for of, _, _ in lost_files(tx, lake):
        if of != before:
            yield of
        before = of


def _damaged(tx: Tx, reading: RowCheck) -> Iterator[Files]:
    """All fragments that have a damaged file: a span of slices has the files of the slices, and
    perhaps another home."""
    paths = {path for _, path, _ in islice(reading.damaged(tx), FRAGMENTS)}
    if not paths:
        return
    for of in tx.traces.files():
        if not paths.isdisjoint(file["path"] for file in of.files):
            yield of


# --- datasets that have them ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Holders:
    """All that names a fragment which is given up: states, partial states, and keys of build
    traces."""

    states: tuple[State, ...]
    partial: tuple[PartialState, ...]
    builds: tuple[bytes, ...]


def _mark(store: Store, namespace: str, marked: set[str]) -> bool:
    """Have all datasets that name a given-up fragment planned again; True if a concurrent commit
    came between."""
    with store.read(namespace) as tx:
        holders = _holders(tx)
    if holders is None:
        return False
    moved: list[State] = []
    with store.begin(namespace) as tx:
        for keys in _pieces(holders.builds):
            tx.upkeep.drop_builds(keys, math.inf)
        for half in holders.partial:
            tx.states.drop_building(half.branch, half.dataset)
        for state in holders.states:
            if _commit_lost(tx, state):
                marked.add(f"{state.branch}/{state.dataset}")
            else:
                moved.append(state)
    return bool(moved)


def _is_to_mark(state: State, branch: str) -> bool:
    """A branch's own, and not marked before."""
    return state.branch == branch and state.logic != LOST


def _holders(tx: Tx) -> _Holders | None:
    """None if no fragment is given up that anything names."""
    states: list[State] = []
    partial: list[PartialState] = []
    for branch in sorted(branches(tx)):
        held = tx.states.holds(branch)  # unplanned datasets are not made again
        newest = [state for name, state in tx.states.newest(branch).items() if name not in held]
        states += [state for state in newest if _is_to_mark(state, branch)]
        partial += tx.states.unfinished(branch)[0].values()
    builds = list(tx.upkeep.builds(math.inf))
    of_states = chain.from_iterable(map(_roots, states))
    lost = _given_up(tx, chain(of_states, (half.root for half in partial), dict(builds).values()))
    if not lost:
        return None
    is_broken = _Broken(tx, lost)
    return _Holders(
        tuple(state for state in states if any(map(is_broken, _roots(state)))),
        tuple(half for half in partial if is_broken(half.root)),
        tuple(key for key, root in builds if is_broken(root)),
    )


def _roots(state: State) -> Iterator[bytes]:
    """Roots of trees that name fragments of the dataset, or its own partial results."""
    yield state.root
    yield from (consumed.root for name, consumed in state.inputs.items() if name.endswith(PARTS))


def _given_up(tx: Tx, roots: Iterable[bytes]) -> Lost:
    lost: dict[str, set[bytes]] = {}
    audited: set[int] = set()
    for root in dict.fromkeys(roots):
        for entries in tree.audit(tx.nodes, root, audited):
            if isinstance(entries, CorruptNode):
                continue  # another damage, reported as such
            stored = tx.traces.stored(dict.fromkeys(e.fragment for e in entries))
            for e in entries:
                if e.fragment not in stored or stored[e.fragment].status != "stored":
                    lost.setdefault(e.key, set()).add(e.fragment)
    return lost


class _Broken:
    """Whether a tree names a fragment that is given up."""

    def __init__(self, tx: Tx, lost: Lost) -> None:
        self._tx, self._lost, self._keys = tx, lost, sorted(lost)
        self._audited: dict[bytes, bool] = {}

    def __call__(self, root: bytes) -> bool:
        if root not in self._audited:
            self._audited[root] = self._is_broken(root)
        return self._audited[root]

    def _is_broken(self, root: bytes) -> bool:
        try:
            return any(
                entry.fragment in self._lost[key]
                for some in _pieces(self._keys)
                for key, entry in tree.lookup(self._tx.nodes, root, some).items()
            )
        except CorruptNode:
            return False


def _pieces(keys: Sequence[T]) -> Iterator[Sequence[T]]:
    return (keys[start : start + A_TIME] for start in range(0, len(keys), A_TIME))


def _commit_lost(tx: Tx, state: State) -> bool:
    """Commit a next state with the same rows and no code: so no plan finds it up to
    date. False where another commit was faster."""
    inputs = {
        name: consumed
        for name, consumed in state.inputs.items()
        if not name.endswith((PARTS, PARTED))
    }
    try:
        after = replace(
            state,
            seq=state.seq + 1,
            logic=LOST,
            lineage=LOST,
            inputs=inputs,
            cause="lost",
            at=tx.now(),
        )
        tx.states.commit(after, state.seq)
    except StaleState:
        return False
    tx.states.drop_building(state.branch, state.dataset)
    # The jobs of requested tasks, also of failed ones, may name what is given up.
    tx.queue.drop_demands(state.branch, state.dataset)
    tx.events.put(
        [
            Event(
                "dataset.lost",
                state.dataset,
                1,
                {"generation": state.generation},
                branch=state.branch,
            )
        ]
    )
    return True

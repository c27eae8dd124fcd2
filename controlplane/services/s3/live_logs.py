"""Delta logs of datasets in live branches, made on request from the trees of kept generations.

A commit is the difference of two trees. The logs made last are kept in memory, and nothing is
stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from controlplane import logs
from controlplane.core import tree
from controlplane.core.errors import CorruptNode, NotFound
from controlplane.core.model.branches import Branch
from controlplane.core.model.roll_ups import change_groups, file_batches, is_layout
from controlplane.core.model.states import State
from controlplane.core.s3 import live_log
from controlplane.core.s3.delta_actions import TableFile
from controlplane.core.s3.live_log import LiveTable, LogDifference
from controlplane.core.s3.part_names import part_name
from controlplane.core.tree import EMPTY_ROOT, Entry, EntryChange, NodeCache, NodeStore
from controlplane.operations.inspect.datasets import kept_states
from controlplane.ports.lake import MakeCheckpoint
from controlplane.ports.store import Tx
from controlplane.services.s3.made_bodies import MadeBodies
from dataplane.contract.identity import schema_id

logger = logs.get("s3")
BATCH = 1000  # entries whose files are looked up together


class MadeFile(NamedTuple):
    """A file of a log. `at`: the time of the commit that it holds."""

    name: str
    body: bytes
    at: float


class LiveLogs:
    """Delta logs of any dataset in any branch. Safe to use from many threads."""

    def __init__(self, nodes: NodeCache, made: MadeBodies, make_checkpoint: MakeCheckpoint) -> None:
        self._nodes, self._made, self._make_checkpoint = nodes, made, make_checkpoint

    def files(self, tx: Tx, branch: str, newest: State) -> list[MadeFile]:
        """The files of the log of which a state is the newest version, in the order of their names:
        all or, where one cannot be made, none. The rows, and the other entries of a listing, are
        served regardless."""
        log = self._log(tx, branch, newest)
        try:
            return [] if log is None else _all(log)
        except (OSError, CorruptNode, NotFound) as e:
            logger.warning(
                "a Delta log cannot be made", branch=branch, dataset=newest.dataset, reason=str(e)
            )
            return []

    def find(self, tx: Tx, branch: str, newest: State, name: str) -> MadeFile | None:
        """Also of before the log begins, as long as the states are kept: readers that were there go
        on from there. Raises OSError if it cannot be made."""
        log = self._log(tx, branch, newest)
        if log is None:
            return None
        if name == live_log.HINT:
            states = log.states(log.begin)
            return log.hint(states[0]) if states and states[0].generation > 1 else None
        if (version := live_log.commit_of(name)) is not None:
            return _commit(log, version)
        if (version := live_log.checkpoint_of(name)) is not None:
            return _checkpoint(log, version)
        return None

    def _log(self, tx: Tx, branch: str, newest: State) -> _Log | None:
        branch_row = tx.branches.all().get(branch)
        return (
            None
            if branch_row is None
            else _Log(
                self._nodes.over(tx.nodes),
                tx,
                branch_row,
                newest,
                self._made,
                self._make_checkpoint,
            )
        )


def _all(log: _Log) -> list[MadeFile]:
    states = log.states(log.begin)
    if not states:
        return []
    first = states[0]
    commits = [log.commit(before, after) for before, after in pairwise(states)]
    if first.generation == 1:
        return [log.empty(first), log.commit(None, first), *commits]
    return [log.checkpoint(first), *commits, log.hint(first)]


def _commit(log: _Log, version: int) -> MadeFile | None:
    if version > log.newest.generation:
        return None
    states = log.states(max(version - 1, 1), max(version, 1))
    if not states or states[-1].generation != max(version, 1):
        return None
    if version == 0:
        return log.empty(states[0])
    if version == 1:
        return log.commit(None, states[0])
    return log.commit(states[0], states[1]) if len(states) == 2 else None


def _checkpoint(log: _Log, version: int) -> MadeFile | None:
    states = log.states(version, version) if 1 < version <= log.newest.generation else []
    return log.checkpoint(states[0]) if states else None


class _Log:
    """One at work, in one snapshot."""

    def __init__(
        self,
        nodes: NodeStore,
        tx: Tx,
        branch: Branch,
        newest: State,
        made: MadeBodies,
        make_checkpoint: MakeCheckpoint,
    ) -> None:
        self.newest, self.begin = newest, live_log.begin(newest.generation, newest.partitions)
        self._nodes, self._tx, self._made, self._make_checkpoint = nodes, tx, made, make_checkpoint
        self._branch = branch.name
        self._table = LiveTable.of(branch, newest.dataset)

    def states(self, first: int, last: int | None = None) -> list[State]:
        """A state of each generation from `first` to `last`, or the newest, in order: those that
        are kept without a gap up to the last one. It is the oldest kept state of the generation:
        later ones say the same."""
        last = self.newest.generation if last is None else last
        descending: list[State] = []
        for state in kept_states(self._tx, self._branch, self.newest.dataset):
            if state.generation > last:
                continue
            if descending and descending[-1].generation == state.generation:
                descending[-1] = state
                continue
            if state.generation < first or (
                descending and state.generation != descending[-1].generation - 1
            ):
                break
            descending.append(state)
        return descending[::-1]

    def empty(self, first: State) -> MadeFile:
        return MadeFile(live_log.commit_file(0), live_log.empty(self._table, first), first.at)

    def commit(self, before: State | None, after: State) -> MadeFile:
        """`before`: None for the first generation."""
        key = (self._table, before and (before.root, schema_id(before.schema)), *_key(after))
        (body,) = self._made.get(key, lambda: (self._compared(before, after),))
        return MadeFile(live_log.commit_file(after.generation), body, after.at)

    def _compared(self, before: State | None, after: State) -> bytes:
        schema = (before or after).schema
        changes = tree.diff(self._nodes, before.root if before else EMPTY_ROOT, after.root)
        new: list[EntryChange] = []
        moved: list[EntryChange] = []  # rows that are in other files
        for group in change_groups(changes):
            is_moved = is_layout(group) and schema == after.schema
            (moved if is_moved else new).extend(group)
        rows, layout = self._difference(new), self._difference(moved)
        return live_log.commit(self._table, schema, after, rows, layout)

    def _difference(self, changes: Sequence[EntryChange]) -> LogDifference:
        removed = self._parts(change.before for change in changes)
        return LogDifference(removed, self._parts(change.after for change in changes))

    def checkpoint(self, state: State) -> MadeFile:
        body, _ = self._full_log(state)
        return MadeFile(live_log.checkpoint_file(state.generation), body, state.at)

    def hint(self, state: State) -> MadeFile:
        _, actions = self._full_log(state)
        return MadeFile(live_log.HINT, live_log.hint(state.generation, int(actions)), state.at)

    def _full_log(self, state: State) -> tuple[bytes, bytes]:
        """The checkpoint, and how many actions are in it, in digits."""
        entries = tree.scan(self._nodes, state.root)

        def made() -> tuple[bytes, bytes]:
            log = live_log.checkpoint_body(self._table, state, self._parts(entries))
            return self._make_checkpoint(log), b"%d" % log.count(b"\n")

        return self._made.get((self._table, "checkpoint", *_key(state)), made)

    def _parts(self, entries: Iterable[Entry | None]) -> Iterator[TableFile]:
        there = (entry for entry in entries if entry is not None)
        for batch in file_batches(there, BATCH):
            fragments = self._tx.traces.fragments({entry.fragment for entry in batch})
            for entry in batch:
                id = entry.fragment.hex()
                if entry.fragment not in fragments:  # `fsck` reports it
                    raise NotFound(f"no fragment {id}")
                files = fragments[entry.fragment].files
                yield from (
                    TableFile(part_name(entry.key, number, id), file)
                    for number, file in enumerate(files)
                )


def _key(state: State) -> tuple[int, bytes, bytes, float]:
    return state.generation, state.root, schema_id(state.schema), state.at

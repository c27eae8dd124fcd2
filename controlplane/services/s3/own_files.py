"""Which files below a dataset's folder are the dataset's own, as the log of its published table
names them.

The folder also holds results of branches for datasets of the same name, output of attempts that
never counted, and rows that were taken out: a key for main reads none of that. So the view serves
only files that kept states of main hold.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock

from controlplane.core import tree
from controlplane.core.model.branches import MAIN
from controlplane.core.model.roll_ups import file_batches
from controlplane.core.model.states import State
from controlplane.core.model.table_paths import table_path
from controlplane.core.tree import EMPTY_ROOT, NodeStore
from controlplane.operations.inspect.datasets import kept_states
from controlplane.ports.store import Tx
from dataplane.contract.results import file_names

TABLES = 8  # that are remembered
BATCH = 1000
MOST = 1_000_000  # names that are remembered of a dataset, before it is read again
_LINK = re.compile(r"_frags/links/[0-9a-f]{2}/([0-9a-f]{32})-[0-9]+/([^/]+)")


class OwnFiles:
    """Files of any dataset. Safe to use from many threads; each dataset's files are read by one at
    a time."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._lock = Lock()
        self._tables: OrderedDict[str, _Files] = OrderedDict()

    def size(self, tx: Tx, nodes: NodeStore, dataset: str, path: str) -> int | None:
        """The size of the file at a path relative to the dataset's folder. None: it is no file of
        the dataset."""
        files = self._of(dataset)
        link = _LINK.fullmatch(path)
        name = f"{link[1]}/{link[2]}" if link else path
        if name not in files.sizes:
            with files.lock:
                files.go_on(tx, nodes, dataset)
        return files.sizes.get(name)

    def _of(self, dataset: str) -> _Files:
        with self._lock:
            table_files = self._tables.pop(dataset, None) or _Files(
                table_path(self._namespace, MAIN, dataset)
            )
            self._tables[dataset] = table_files
            if len(self._tables) > TABLES:
                self._tables.popitem(last=False)
            return table_files


class _Files:
    """The files of one dataset: sizes by path, and by the names of their links."""

    def __init__(self, folder: str) -> None:
        self.sizes: dict[str, int] = {}
        self.lock = Lock()
        self._folder = f"{folder}/"
        self._root, self._seq = EMPTY_ROOT, 0  # of the newest state that was read

    def go_on(self, tx: Tx, nodes: NodeStore, dataset: str) -> None:
        """Add the files that newer states have and earlier ones have not."""
        if len(self.sizes) > MOST:  # many are collected by now
            self.sizes, self._root, self._seq = {}, EMPTY_ROOT, 0
        states = list(_newer(tx, dataset, self._seq))
        for state in reversed(states):
            changes = tree.diff(nodes, self._root, state.root)
            added = (change.after for change in changes if change.after is not None)
            for batch in file_batches(added, BATCH):
                self._add(tx, {part.fragment for part in batch})
            self._root, self._seq = state.root, state.seq

    def _add(self, tx: Tx, ids: set[bytes]) -> None:
        for id, fragment in tx.traces.fragments(ids).items():
            for name, file in zip(file_names(fragment.files), fragment.files, strict=True):
                self.sizes[f"{id.hex()[:32]}/{name}"] = file["size"]
                if file["path"].startswith(self._folder):
                    self.sizes[file["path"].removeprefix(self._folder)] = file["size"]


def _newer(tx: Tx, dataset: str, seq: int) -> Iterator[State]:
    for state in kept_states(tx, MAIN, dataset):
        if state.seq <= seq:
            return
        yield state

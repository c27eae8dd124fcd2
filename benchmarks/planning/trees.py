"""Building many trees, or large ones, into a store: in several processes, with one writer.

Does not belong here: what the trees are for.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from multiprocessing.queues import Queue
from typing import TypeAlias

from benchmarks.planning import contents
from benchmarks.planning.memory import peak_mb
from controlplane.core import tree
from controlplane.core.tree import Entry, NodeColumns, NodeStore
from controlplane.ports.store import Store

FEW = 200_000  # entries that are not worth a process
TRANSACTION_BYTES = 64 << 20
QUEUED = 4  # batches that may wait for the writer


@dataclass(frozen=True, slots=True)
class Wanted:
    """A tree that is to be: a listing's, or a dataset's. Of equal names and numbers the entries are
    equal.

    `without` leaves out each key whose number gives `offset` modulo this.
    """

    name: str
    count: int
    is_listing: bool = False
    without: int = 0
    offset: int = 0

    def build(self, nodes: NodeStore) -> bytes:
        """Its root."""
        every = (contents.objects if self.is_listing else contents.partitions)(
            self.name, self.count
        )
        return (
            tree.build(nodes, self._rest(every))
            if self.without
            else tree.build_columns(nodes, every)
        )

    def _rest(self, every: Iterable[NodeColumns]) -> Iterator[Entry]:
        entries = chain.from_iterable(columns.entries() for columns in every)
        return (
            entry for number, entry in enumerate(entries) if number % self.without != self.offset
        )

    @property
    def size(self) -> int:
        if not self.without:
            return self.count
        return self.count - len(range(self.offset, self.count, self.without))


@dataclass(frozen=True, slots=True)
class Built:
    """Roots by what was wanted, and the peak memory of all processes together."""

    roots: Mapping[Wanted, bytes]
    peak_mb: float


Nodes: TypeAlias = dict[bytes, bytes]
Message: TypeAlias = "Nodes | tuple[Wanted, bytes] | float"


def build(store: Store, wanted: Sequence[Wanted], processes: int) -> Built:
    if processes < 2 or sum(w.count for w in wanted) < FEW:
        return _build_here(store, wanted)
    context = multiprocessing.get_context("spawn")
    queue: Queue[Message] = context.Queue(QUEUED)
    shares = [list(wanted[i::processes]) for i in range(processes)]
    workers = [context.Process(target=_work, args=(share, queue)) for share in shares if share]
    for worker in workers:
        worker.start()
    try:
        return _take_in(store, queue, len(workers))
    finally:
        for worker in workers:
            worker.terminate()
            worker.join()


def _build_here(store: Store, wanted: Iterable[Wanted]) -> Built:
    roots = {}
    for each in wanted:
        with store.begin() as tx:
            roots[each] = each.build(tx.nodes)
    return Built(roots, peak_mb())


class _Sender:
    """A node store that passes nodes on."""

    def __init__(self, queue: Queue[Message]) -> None:
        self._queue = queue

    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        raise LookupError(f"building reads nothing, and not {len(digests)} nodes")

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        self._queue.put(dict(nodes))


def _work(share: Sequence[Wanted], queue: Queue[Message]) -> None:
    gc.disable()  # entries have no cycles
    for wanted in share:
        queue.put((wanted, wanted.build(_Sender(queue))))
    queue.put(peak_mb())


def _take_in(store: Store, queue: Queue[Message], workers: int) -> Built:
    """Write until every worker has told its peak, with which it ends."""
    roots: dict[Wanted, bytes] = {}
    peaks: list[float] = []
    while len(peaks) < workers:
        with store.begin() as tx:
            written = 0
            while written < TRANSACTION_BYTES and len(peaks) < workers:
                match queue.get():
                    case float(peak):
                        peaks.append(peak)
                    case (wanted, root):
                        roots[wanted] = root
                    case nodes:
                        tx.nodes.put_nodes(nodes)
                        written += sum(map(len, nodes.values()))
    return Built(roots, sum(peaks) + peak_mb())

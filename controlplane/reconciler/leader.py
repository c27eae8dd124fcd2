"""Which of several equal processes runs the loop: the one that holds the lease, for as long as it
holds it.

Nothing rests on the lease: writes of a deposed leader are refused by its epoch, in the transaction
that would have kept them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from controlplane import logs
from controlplane.core.model.leases import LOOP, Lease
from controlplane.ports.store import Store, Tx

LOOK_S = 2.0  # at the longest, who waits for the lease looks again after so long
log = logs.get("leading")


class TermEnd:
    """The end of a leader's term: the process stops, or another process leads."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop, self._lost = stop, threading.Event()

    def is_set(self) -> bool:
        return self._stop.is_set() or self._lost.is_set()

    def lose(self) -> None:
        self._lost.set()


@dataclass(frozen=True, slots=True)
class FencedStore:
    """A store that commits nothing once another process has the lease: its transactions raise
    Deposed at their end."""

    inner: Store
    epoch: int
    home: str = "default"  # the namespace that the lease is of; it fences all

    @property
    def statements(self) -> int:
        return self.inner.statements

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Tx]:
        with self.inner.begin(namespace) as tx:
            yield tx
            tx.leases.require(LOOP, self.epoch, of=self.home)

    def read(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        return self.inner.read(namespace)

    def check(self, namespace: str = "default") -> None:
        """Raises Deposed if another process holds the lease by now."""
        with self.begin(namespace):
            """Its end is what asks."""

    def close(self) -> None:
        self.inner.close()


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """One process that would run the loop. `holder` is its name, unique while it lives; `work` runs
    the loop over the store that it is given until the term is over."""

    store: Store
    holder: str
    lease_s: float
    work: Callable[[FencedStore, TermEnd], None]
    nudge: Callable[[], None] = lambda: None
    namespace: str = "default"

    def run(self, stop: threading.Event) -> None:
        """Wait for the lease, lead, and wait again, until `stop`. What fails is tried again, after
        others could."""
        while not stop.is_set():
            lease = self._take()
            if lease is None or not self._lead(lease, stop):
                stop.wait(min(LOOK_S, self.lease_s))

    def _take(self) -> Lease | None:
        try:
            with self.store.begin(self.namespace) as tx:
                lease = tx.leases.take(LOOP, self.holder, self.lease_s)
        except OSError as e:
            log.warning("the lease cannot be asked for", reason=str(e))
            return None
        except Exception as e:
            log.exception("the lease cannot be asked for", error=str(e))
            return None
        return lease if lease.holder == self.holder else None

    def _lead(self, lease: Lease, stop: threading.Event) -> bool:
        """One term; False if it failed. The lease is renewed until all that belongs to it has
        ended, and is then released."""
        log.info("leads", holder=self.holder, epoch=lease.epoch)
        over, done = TermEnd(stop), threading.Event()
        renewing = threading.Thread(
            target=self._renew, args=[lease, over, done], name="lease", daemon=True
        )
        renewing.start()
        try:
            self.work(FencedStore(self.store, lease.epoch, self.namespace), over)
        except Exception as e:
            log.exception("leading failed", error=str(e))
            return False
        finally:
            done.set()
            renewing.join()
            self._hand_back(lease)
            log.info("leads no more", holder=self.holder, epoch=lease.epoch)
        return True

    def _renew(self, lease: Lease, over: TermEnd, done: threading.Event) -> None:
        """Only an answer ends a term: while the database is away, no other process can take the
        lease either. An unforeseen error ends it as well: a term must not go on without a renewed
        lease."""
        try:
            self._keep(lease, over, done)
        except BaseException as e:  # no other thread sees this one fail
            log.exception("the lease is not renewed any more", error=str(e))
            over.lose()
            self.nudge()

    def _keep(self, lease: Lease, over: TermEnd, done: threading.Event) -> None:
        while not done.wait(self.lease_s / 3):
            try:
                with self.store.begin(self.namespace) as tx:
                    is_kept = tx.leases.renew(LOOP, lease.epoch, self.lease_s)
            except OSError as e:
                log.warning("the lease cannot be renewed", reason=str(e))
                continue
            if not is_kept:
                over.lose()
                self.nudge()
                return

    def _hand_back(self, lease: Lease) -> None:
        try:
            with self.store.begin(self.namespace) as tx:
                tx.leases.end(LOOP, lease.epoch)
        except Exception as e:  # noqa: BLE001  # it runs out by itself
            log.warning("the lease is not handed back: it runs out", reason=str(e))

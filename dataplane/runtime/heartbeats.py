"""Heartbeats of all attempts of a worker, by one thread, and their answers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from dataplane.contract.claims import Claim
from dataplane.runtime.client import Ended, Heartbeat

IDLE_S = 60.0
log = logging.getLogger(__name__)


class Beating(Protocol):
    def heartbeat(self, attempts: Iterable[str]) -> Heartbeat: ...


class Orders:
    """The answers of heartbeats about one attempt."""

    def __init__(self) -> None:
        self._fenced = threading.Event()

    @property
    def fenced(self) -> bool:
        return self._fenced.is_set()

    def fence(self) -> None:
        self._fenced.set()


class Beats:
    """A heartbeat of all that is under way, three times in the shortest lease."""

    def __init__(self, client: Beating) -> None:
        self._client = client
        self._orders: dict[str, tuple[Orders, float]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self.is_over = False  # no more is to be claimed
        self._thread = threading.Thread(target=self._run, name="heartbeats", daemon=True)
        self._thread.start()

    @contextmanager
    def lease_kept(self, claim: Claim) -> Iterator[Orders]:
        """The attempt's lease is kept while the body runs."""
        orders = Orders()
        with self._changed:
            self._orders[claim["attempt"]] = orders, claim["lease_s"]
            self._changed.notify_all()
        try:
            yield orders
        finally:
            with self._changed:
                del self._orders[claim["attempt"]]

    def end(self) -> None:
        """All that is under way is for nothing."""
        self.is_over = True
        with self._changed:
            for orders, _ in self._orders.values():
                orders.fence()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while self._wait():
            with self._changed:
                beaten = {attempt: orders for attempt, (orders, _) in self._orders.items()}
            if beaten:
                self._beat(beaten)

    def _wait(self) -> bool:
        """Until it is time; False when it is over. One more attempt may make it time sooner."""
        began = time.monotonic()
        with self._changed:
            while not self._closed:
                shortest_s = min((lease_s for _, lease_s in self._orders.values()), default=IDLE_S)
                left_s = began + shortest_s / 3 - time.monotonic()
                if left_s <= 0:
                    return True
                self._changed.wait(left_s)
        return False

    def _beat(self, beaten: dict[str, Orders]) -> None:
        try:
            answer = self._client.heartbeat(beaten)
        except Ended:
            self.end()
            return
        except Exception as e:  # noqa: BLE001  # one that fails is followed by another
            log.warning("a heartbeat failed: %s", e)
            return
        self.is_over |= answer.drain
        for attempt in answer.fenced:
            if attempt in beaten:
                beaten[attempt].fence()

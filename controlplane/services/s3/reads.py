"""Reads through the S3 view for the audit, counted by key, dataset and minute: a client fetches an
object in many requests. What the last minute read is lost with the process."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from controlplane import logs
from controlplane.core.model import namespaces
from controlplane.core.model.reads import RecordedRead
from controlplane.ports.store import Store

MINUTE_S = 60

log = logs.get("s3")


class _Row(NamedTuple):
    """The key by which requests are counted together."""

    access_key: str
    name: str
    branch: str
    dataset: str
    minute: int


class ReadCounts:
    """Reads that one process served. Safe to use from many threads."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._times, self._bytes = Counter[_Row](), Counter[_Row]()
        self._timer: threading.Timer | None = None
        self._is_closed = False

    def add(self, access_key: str, name: str, branch: str, dataset: str, sent: int) -> None:
        """One request that was answered with content of a dataset."""
        row = _Row(access_key, name, branch, dataset, int(self._clock()) // MINUTE_S)
        with self._lock:
            self._times[row] += 1
            self._bytes[row] += sent
            if self._timer is None and not self._is_closed:
                self._timer = threading.Timer(MINUTE_S, self.flush)
                self._timer.daemon = True
                self._timer.start()

    def flush(self) -> None:
        """Write the counts. If the database does not answer, they are kept for the next flush."""
        with self._lock:
            times, sent, self._timer = self._times, self._bytes, None
            self._times, self._bytes = Counter(), Counter()
        for namespace, rows in _by_namespace(times).items():
            try:
                with self._store.begin(namespace) as tx:
                    tx.audit.put_reads([_read(row, times[row], sent[row]) for row in rows])
            except OSError as error:
                log.warning(
                    "reads were not noted in the audit yet", namespace=namespace, reason=str(error)
                )
                with self._lock:
                    self._times += Counter({row: times[row] for row in rows})
                    self._bytes += Counter({row: sent[row] for row in rows})

    def close(self) -> None:
        """The process ends."""
        with self._lock:
            self._is_closed = True
            timer = self._timer
        if timer is not None:
            timer.cancel()
        if self._times:
            self.flush()


def _by_namespace(rows: Iterable[_Row]) -> dict[str, list[_Row]]:
    """In order; a key is of one namespace."""
    by_namespace = dict[str, list[_Row]]()
    for row in sorted(rows):
        by_namespace.setdefault(namespaces.of_id(row.access_key), []).append(row)
    return by_namespace


def _read(row: _Row, times: int, sent: int) -> RecordedRead:
    return RecordedRead(
        row.name,
        "",
        "s3",
        branch=row.branch,
        dataset=row.dataset,
        at=float(row.minute * MINUTE_S),
        times=times,
        bytes=sent,
        what={"access_key": row.access_key},
    )

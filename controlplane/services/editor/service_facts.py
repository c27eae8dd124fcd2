"""A service's facts about datasets, looked up beside the editor, which never waits for a slow or
missing service."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack
from typing import TypeAlias

import httpx2

from controlplane.client import ApiError, Headgate
from controlplane.core.errors import HeadgateError
from controlplane.core.model.answers import DatasetAnswer
from controlplane.settings import BadSetting

Connect: TypeAlias = Callable[[], AbstractContextManager[Headgate | None]]
WAITING = 100  # pending lookups; more get the last answer


class Lookups:
    """One thread that calls the service, and the last answers. An error is no answer: the last
    answer stays."""

    def __init__(self, connect: Connect, branch: str) -> None:
        self._connect, self._branch = connect, branch
        self._answers: dict[str, DatasetAnswer] = {}
        self._pending: dict[str, Future[DatasetAnswer | None]] = {}
        self._queue = queue.Queue[tuple[str, Future[DatasetAnswer | None]]](WAITING)
        self._lock = threading.Lock()
        threading.Thread(target=self._work, name="lookups", daemon=True).start()

    def latest(self, dataset: str) -> DatasetAnswer | None:
        """The last answer for a dataset, at once."""
        return self._answers.get(dataset)

    def forget(self) -> None:
        """Request each answer again from now on; until it comes, the earlier one is used."""
        with self._lock:
            self._pending.clear()

    def ask(self, dataset: str) -> Future[DatasetAnswer | None]:
        """The answer, or the last one where the queue is full. It may never come."""
        with self._lock:
            pending = self._pending.get(dataset)
            if pending is not None:
                return pending
            future = self._pending[dataset] = Future()
        try:
            self._queue.put_nowait((dataset, future))
        except queue.Full:
            future.set_result(self.latest(dataset))
        return future

    def _work(self) -> None:
        ends, client = ExitStack(), None
        while True:
            dataset, future = self._queue.get()
            try:
                client = client or ends.enter_context(self._connect())
                if client is not None:
                    self._answers[dataset] = client.dataset(dataset, branch=self._branch)
            except ApiError:
                self._answers.pop(dataset, None)  # there is no such dataset, or it is not for us
            except (HeadgateError, BadSetting, OSError, httpx2.HTTPError):
                ends.close()
                ends, client = ExitStack(), None
            future.set_result(self.latest(dataset))

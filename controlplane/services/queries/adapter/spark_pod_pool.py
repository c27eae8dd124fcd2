"""Queries by Spark in a pod, which all replicas of the service share: each holds it for one query,
and leaves it warm."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from controlplane.core.errors import QueriesBusy, QueryCancelled, QueryLimit
from controlplane.drivers.transport import ChildEnded, PodProcess, reached
from controlplane.services.queries.adapter.query_child import QueryChild, SparkChild
from controlplane.services.queries.adapter.query_pool import CANCELLED, QueryPool
from controlplane.services.queries.adapter.spark import SparkPool, SparkSession
from controlplane.services.queries.adapter.user_limits import ENDS
from controlplane.services.queries.port import (
    Cancellation,
    PageBounds,
    PodPlace,
    QueryPods,
    RowsPage,
)
from dataplane.contract.query_pods import BEAT_S

LOOK_S = 0.3
STARTING = "Spark's pod starts, which took all of the {seconds:g} s ({words}); ask again soon"
BUSY = "queries of other replicas took all of the {seconds:g} s; try again later"
SLOW = "the cluster does not answer"
NOBODY = "it does not answer yet: {error}"


class SparkPodPool(SparkPool):
    """`QueryEngine` over the lake of the pod. One query of ours at a time."""

    def __init__(self, lake: str, pages: QueryPool, pods: QueryPods, *, waiting: int = 10) -> None:
        super().__init__(lake, pages, waiting=waiting)
        self._pods = pods
        self._place: PodPlace | None = None  # where it was last

    def _session(
        self, user: str, cancellation: Cancellation, deadline: float, timeout_s: float
    ) -> SparkPodSession:
        return SparkPodSession(self, user, cancellation, deadline, timeout_s)

    def reach(self, request: PodRequest) -> QueryChild:
        """A process that waits for our questions. Raises QueryLimit, QueriesBusy, QueryCancelled
        and EngineUnavailable."""
        child = self._reached(request)
        with self.lock:
            self._busy.add(child)
            if self.is_closed:
                child.kill()
        return child

    def _reached(self, request: PodRequest) -> QueryChild:
        while True:
            request.check()
            place = self._place or self._looked(request)
            if isinstance(place, PodPlace):
                try:
                    return self._welcomed(place, request)
                except (
                    OSError,
                    ChildEnded,
                ) as e:  # it starts, has ended since it was last seen, or is another one
                    self._place, request.words = None, NOBODY.format(error=_words(e))
            else:
                request.words = place
            request.pause()

    def _looked(self, request: PodRequest) -> PodPlace | str:
        """A cluster that does not answer delays no request beyond its end."""
        place = Future[PodPlace | str]()
        threading.Thread(target=_do, args=(self._pods.look, place), name="pod", daemon=True).start()
        while True:
            try:
                return place.result(min(LOOK_S, request.left_s))
            except TimeoutError:
                request.words = request.words or SLOW
                request.check()

    def _welcomed(self, place: PodPlace, request: PodRequest) -> QueryChild:
        process = reached(place.host, place.port, place.token, request.left_s, BEAT_S)
        try:
            request.is_queued = True
            question = process.welcome(request.check)
        except BaseException:
            request.is_queued = False
            process.close()
            raise
        self._place = place
        return SparkChild(process, question)

    def _keep(self, child: QueryChild) -> None:
        """Its connection ends, so that other replicas have their turn."""
        assert isinstance(child.transport, PodProcess)
        child.transport.keep(child.question_number)
        child.close()

    def close(self) -> None:
        super().close()
        self._pods.close()


class PodRequest:
    """A request for the process, with its deadline, and the reason why it waits."""

    def __init__(
        self, pool: QueryPool, cancellation: Cancellation, deadline: float, timeout_s: float
    ) -> None:
        self._pool, self._cancellation = pool, cancellation
        self._deadline, self._timeout_s = deadline, timeout_s
        self.words, self.is_queued = "", False

    @property
    def left_s(self) -> float:
        return max(0.01, self._deadline - time.monotonic())

    def check(self) -> None:
        """Raise the error that ends the request, if any."""
        if self._cancellation.is_cancelled:
            raise QueryCancelled(CANCELLED)
        if self._pool.is_closed:
            raise QueriesBusy(ENDS)
        if time.monotonic() < self._deadline:
            return
        if self.is_queued:
            raise QueriesBusy(BUSY.format(seconds=self._timeout_s))
        raise QueryLimit(
            STARTING.format(seconds=self._timeout_s, words=self.words or "it was asked for")
        )

    def pause(self) -> None:
        time.sleep(min(LOOK_S, self.left_s))


class SparkPodSession(SparkSession):
    """`QuerySession`."""

    _pool: SparkPodPool

    def _take_child(self) -> QueryChild:
        return self._pool.reach(
            PodRequest(self._pool, self._cancellation, self._deadline, self._timeout_s)
        )

    def page(self, path: Path, offset: int, bounds: PageBounds) -> RowsPage:
        """Results lie on this machine, where the pod is not."""
        return self.page_without_spark(path, offset, bounds)


def _do(work: Callable[[], PodPlace | str], future: Future[PodPlace | str]) -> None:
    try:
        future.set_result(work())
    except Exception as e:  # noqa: BLE001  # raised to the waiting thread
        future.set_exception(e)


def _words(error: OSError | ChildEnded) -> str:
    return (
        "it closes the connection"
        if isinstance(error, ChildEnded)
        else str(error.strerror or error)
    )

"""How a query comes to a pod: what is waited for, who is spoken to, and what is told where the time
is over."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from controlplane.core.errors import EngineUnavailable, QueriesBusy, QueryCancelled, QueryLimit
from controlplane.drivers.transport import LOST, ChildEnded
from controlplane.services.queries.adapter.query_pool import QueryPool
from controlplane.services.queries.adapter.spark_pod_pool import PodRequest, SparkPodPool
from controlplane.services.queries.port import PodPlace
from controlplane.services.queries.running_queries import Cancel
from dataplane.contract.query_pods import POD, WELCOME, frame, number, proof
from tests.unit.queries.pod_world import LONG_S, NONCE, TOKEN, Serving, answer, run, works
from tests.unit.queries.test_processes import LARGE, is_gone


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """It is sound after each test, whatever became of its process."""
    serving = Serving(tmp_path_factory.mktemp("lake"))
    try:
        yield serving
    finally:
        serving.close()


class Pods:
    """Tells what it was told to."""

    def __init__(self, *found: PodPlace | str | Exception) -> None:
        self.found, self.asked = list(found), 0

    def look(self) -> PodPlace | str:
        self.asked += 1
        found = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        """Nothing of ours."""


@contextmanager
def pool_of(pods: Pods) -> Iterator[SparkPodPool]:
    pages = QueryPool("unused")
    with closing(pages), closing(SparkPodPool("unused", pages, pods)) as pool:
        yield pool


def wish(pool: QueryPool, seconds: float = LONG_S, cancel: Cancel | None = None) -> PodRequest:
    return PodRequest(pool, cancel or Cancel(), time.monotonic() + seconds, seconds)


def test_a_pod_is_waited_for_and_then_remembered(pod: Serving) -> None:
    nowhere = PodPlace("127.0.0.1", 1, TOKEN)
    pods = Pods("it waits for a node", nowhere, pod.place)
    with pool_of(pods) as pool:
        for _ in range(3):
            child = pool.reach(wish(pool))
            answer(child, run("SELECT 1"))
            pool.put_back(child, is_sound=True)
        assert pods.asked == 3
        assert pool._busy == set()


@pytest.mark.parametrize(
    "said",
    [
        frame(WELCOME, b"0 " + proof("another", POD, NONCE)),
        number(WELCOME, 0),
        frame(WELCOME, b"x " + NONCE),
        frame(WELCOME, b""),
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"W\xff\xff\xff\xff",
    ],
)
def test_who_listens_at_the_address_by_chance_learns_nothing_and_is_not_asked(
    pod: Serving, said: bytes
) -> None:
    """As where it was given to another pod meanwhile."""
    note_call = list[bytes]()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_it() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(said)
                while piece := connection.recv(1000):
                    note_call.append(piece)

        thread = threading.Thread(target=answer_it)
        thread.start()
        stranger = PodPlace("127.0.0.1", listening.getsockname()[1], TOKEN)
        with pool_of(Pods(stranger, pod.place)) as pool:
            child = pool.reach(wish(pool))
            assert answer(child, run("SELECT 1"))["rows"] == 1
            pool.put_back(child, is_sound=True)
        thread.join()
    assert TOKEN.encode() not in b"".join(note_call)
    assert b"SELECT" not in b"".join(note_call)


def test_a_pod_that_is_gone_is_looked_for(pod: Serving, tmp_path: Path) -> None:
    earlier = Serving(tmp_path / "earlier")
    with pool_of(Pods(earlier.place, pod.place)) as pool:
        pool.put_back(pool.reach(wish(pool)), is_sound=True)
        earlier.close()
        child = pool.reach(wish(pool))
        assert answer(child, run("SELECT 1"))["rows"] == 1
        pool.put_back(child, is_sound=True)


def test_what_the_cluster_says_is_told_at_the_deadline() -> None:
    with (
        pool_of(Pods("waits for room in a quota: cpu")) as pool,
        pytest.raises(QueryLimit, match="quota: cpu"),
    ):
        pool.reach(wish(pool, 0.05))


def test_a_cluster_that_does_not_answer_keeps_nobody_past_the_deadline() -> None:
    answers = threading.Event()

    class Hangs(Pods):
        def look(self) -> PodPlace | str:
            answers.wait()
            return super().look()

    with pool_of(Hangs("it starts")) as pool:
        with pytest.raises(QueryLimit, match="the cluster does not answer"):
            pool.reach(wish(pool, 0.05))
        answers.set()


def test_a_pod_that_does_not_know_us_is_told_at_the_deadline(pod: Serving) -> None:
    stranger = PodPlace(pod.place.host, pod.place.port, "another")
    with pool_of(Pods(stranger)) as pool, pytest.raises(QueryLimit, match="closes the connection"):
        pool.reach(wish(pool, 0.05))


def test_where_waiting_does_not_help_nobody_waits() -> None:
    with (
        pool_of(Pods(EngineUnavailable("no image"))) as pool,
        pytest.raises(EngineUnavailable, match="no image"),
    ):
        pool.reach(wish(pool))


def test_another_replica_s_query_is_waited_for_until_the_deadline(pod: Serving) -> None:
    with (
        pool_of(Pods(pod.place)) as pool,
        pod.asked(),
        pytest.raises(QueriesBusy, match="other replicas"),
    ):
        pool.reach(wish(pool, 0.05))


def cancelled(pool: SparkPodPool) -> None:
    cancel = Cancel()
    cancel.cancel()
    pool.reach(wish(pool, cancel=cancel))


def closed(pool: SparkPodPool) -> None:
    pool.close()
    pool.reach(wish(pool))


@pytest.mark.parametrize(("ends", "error"), [(cancelled, QueryCancelled), (closed, QueriesBusy)])
def test_who_waits_no_more_is_not_kept(
    ends: Callable[[SparkPodPool], None], error: type[Exception]
) -> None:
    with pool_of(Pods("it starts")) as pool, pytest.raises(error):
        ends(pool)


def test_a_child_that_is_not_sound_is_not_kept(pod: Serving) -> None:
    with pool_of(Pods(pod.place)) as pool:
        child = pool.reach(wish(pool))
        first = pod.process
        asking = child.ask(run(LARGE, limit=None), time.monotonic() + LONG_S)
        next(asking)
        child.kill()
        with pytest.raises(ChildEnded, match=LOST):
            for _ in asking:
                pass
        pool.put_back(child, is_sound=False)
        works(pod)
    assert is_gone(first.process.pid)

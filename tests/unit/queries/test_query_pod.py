"""A process that answers queries, over TCP: who is let in, whose turn it is, and what an end on either side costs.

The process behind it is DuckDB's, which starts in a moment; `tests/spark/test_query_pod.py` has Spark's.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import EngineUnavailable, QueriesBusy, QueryCancelled, QueryLimit
from controlplane.lake.queries.carriers import LOST, ChildEnded, PodProcess, reached
from controlplane.lake.queries.child import QueryChild, SparkChild
from controlplane.lake.queries.pods import SparkPodPool, Wish
from controlplane.lake.queries.pool import QueryPool
from controlplane.operations.inspect.running_queries import Cancel
from controlplane.ports.queries import PodPlace
from dataplane.contract.queries import ARROW, HEAD, LAST, QueryQuestion
from dataplane.contract.query_pods import (
    EXIT,
    KEEP,
    OUTPUT,
    POD,
    WELCOME,
    frame,
    greeted,
    hello,
    number,
    proof,
    welcome,
)
from dataplane.runtime.query_pod.child import Child, Kind
from dataplane.runtime.query_pod.pod import Patience, QueryPod
from tests.e2e.workspace import until
from tests.unit.queries.test_processes import ENDLESS, LARGE, is_gone, peak_mb

TOKEN = "the token of this pod"
LONG_S = 600.0
DUCKDB = (sys.executable, "-P", "-m", "dataplane.query")


class Serving:
    """A pod in a thread."""

    def __init__(
        self, lake: Path, *, idle_s: float = LONG_S, greet_s: float = LONG_S, silent_s: float = LONG_S
    ) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        kind = Kind(str(lake), 200 << 20, 10 << 20, LONG_S, DUCKDB)
        self.pod = QueryPod(listening, TOKEN, kind, Patience(idle_s, greet_s, silent_s, linger_s=0.2))
        self.place = PodPlace("127.0.0.1", listening.getsockname()[1], TOKEN)
        self.listening = listening
        self.thread = threading.Thread(target=self.pod.serve, daemon=True)
        self.thread.start()

    @property
    def process(self) -> Child:
        return self.pod._child

    @contextmanager
    def asked(self, token: str = TOKEN) -> Iterator[QueryChild]:
        """By a caller who leaves without a word, unless it says one."""
        process = self.connected(token)
        with closing(process):
            yield QueryChild(process, process.welcome(lambda: None))

    def connected(self, token: str = TOKEN) -> PodProcess:
        return reached(self.place.host, self.place.port, token, LONG_S, beat_s=0.05)

    def close(self) -> None:
        self.pod._patience = Patience(0.0)
        socket.create_connection((self.place.host, self.place.port)).close()  # it looks up
        self.thread.join()
        self.pod.close()
        self.listening.close()


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """It is sound after each test, whatever became of its process."""
    serving = Serving(tmp_path_factory.mktemp("lake"))
    try:
        yield serving
    finally:
        serving.close()


def run(sql: str, *, limit: int | None = 10, seconds: float = LONG_S) -> QueryQuestion:
    return {"ask": "run", "sql": sql, "parameters": None, "tables": [], "limit": limit, "seconds": seconds}


def answer(child: QueryChild, question: QueryQuestion) -> Any:
    asking = child.ask(question, time.monotonic() + LONG_S)
    while True:
        try:
            next(asking)
        except StopIteration as end:
            return end.value


def kept(child: QueryChild) -> None:
    assert isinstance(child.carrier, PodProcess)
    child.carrier.keep(child.asked)


def works(pod: Serving) -> None:
    with pod.asked() as child:
        assert answer(child, run("SELECT 1")) == {"rows": 1, "more": False}
        kept(child)


def has_ended(process: Child) -> None:
    handle = os.pidfd_open(process.process.pid)
    try:
        assert select.select([handle], [], [], 60)[0], "it lives on"
    finally:
        os.close(handle)


def test_the_process_waits_for_the_next_caller(pod: Serving) -> None:
    first = pod.process
    with pod.asked() as child:
        before = child.asked
        answer(child, run("SELECT 1"))
        answer(child, {"ask": "inspect", "sql": "SELECT 1"})
        assert child.is_alive
        kept(child)
    with pod.asked() as child:
        assert child.asked == before + 2
        assert answer(child, run("FROM range(100)"))["more"] is True
        assert pod.process is first
        kept(child)


NONCE = b"0123456789abcdef"
SAID = {
    "another token": hello("another token", NONCE),
    "the token itself": TOKEN.encode() + b"\n",
    "the proof of another word": b"x" + hello(TOKEN, NONCE),
    "the pod's own proof": NONCE + b" " + proof(TOKEN, POD, NONCE) + b"\n",
    "a part of it": hello(TOKEN, NONCE)[:-2] + b"\n",
    "more than it": hello(TOKEN, NONCE)[:-1] + b"x\n",
    "no word": hello(TOKEN, b""),
    "something behind it": hello(TOKEN, NONCE) + number(KEEP, 1),
    "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "bytes": bytes(range(256)) * 4,
    "no line that ends": b"x" * 100_000,
    "nothing": b"\n",
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_who_does_not_know_the_token_is_told_nothing(pod: Serving, said: bytes) -> None:
    first = pod.process
    with socket.create_connection((pod.place.host, pod.place.port)) as caller:
        caller.sendall(said)
        assert told(caller) == b""
    assert pod.process is first
    works(pod)


def told(caller: socket.socket) -> bytes:
    """Until the end, which may come with a reset, as not all was read."""
    try:
        return caller.recv(100)
    except ConnectionResetError:
        return b""


def test_who_takes_long_to_say_it_is_not_waited_for(tmp_path: Path) -> None:
    with closing(Serving(tmp_path, greet_s=0.2)) as pod:
        with socket.create_connection((pod.place.host, pod.place.port)) as caller:
            caller.sendall(hello(TOKEN, NONCE)[:-1])
            assert told(caller) == b""
        works(pod)


def test_those_who_say_nothing_keep_nobody_out_for_long(tmp_path: Path) -> None:
    with closing(Serving(tmp_path, greet_s=0.2)) as pod:
        silent = [socket.create_connection((pod.place.host, pod.place.port)) for _ in range(100)]
        try:
            for caller in silent:
                assert told(caller) == b""
            works(pod)
        finally:
            for caller in silent:
                caller.close()


@pytest.mark.parametrize("sent", [b"", b"I\0\0\0\5ab", b"\xff" * 200, b"I\xff\xff\xff\xff", b"K\0\0\0\1x", b"I\0"])
def test_a_connection_that_breaks_or_makes_no_sense_ends_the_process(pod: Serving, sent: bytes) -> None:
    first = pod.process
    process = pod.connected()
    process.welcome(lambda: None)
    process._connection.sendall(sent)
    process.close()
    works(pod)
    assert first.process.poll() == -signal.SIGKILL
    assert not Path(first._scratch).exists()


def test_a_connection_that_ends_amid_an_answer_ends_the_query(pod: Serving) -> None:
    first = pod.process
    with pod.asked() as child:
        next(child.ask(run(LARGE, limit=None), time.monotonic() + LONG_S))
    works(pod)
    assert first.process.poll() == -signal.SIGKILL


def test_a_connection_that_ends_while_it_reckons_ends_the_query(pod: Serving) -> None:
    with pod.asked() as child:
        child._send(run(ENDLESS))
        first = pod.process
    works(pod)
    assert first.process.poll() == -signal.SIGKILL


def test_a_caller_that_has_vanished_ends_its_query(tmp_path: Path) -> None:
    """Nothing tells of its end, and the process would go on saying what nobody takes."""
    with closing(Serving(tmp_path, silent_s=1.0)) as pod:
        with closing(reached(pod.place.host, pod.place.port, TOKEN, LONG_S, beat_s=LONG_S)) as process:
            child = QueryChild(process, process.welcome(lambda: None))
            child._send(run(LARGE, limit=None))
            first = pod.process
            has_ended(first)
        works(pod)
        assert first.process.poll() == -signal.SIGKILL


def test_a_caller_that_only_waits_is_there(tmp_path: Path) -> None:
    with (
        closing(Serving(tmp_path, silent_s=1.0)) as pod,
        closing(reached(pod.place.host, pod.place.port, TOKEN, LONG_S, beat_s=0.02)) as process,
    ):
        child = QueryChild(process, process.welcome(lambda: None))
        assert answer(child, run(ENDLESS, seconds=2.0))["refusal"]["kind"] == "limit"


def test_half_a_question_is_none(pod: Serving) -> None:
    with pod.asked() as child:
        child.carrier.write(b'{"ask": "run", "sq')
    works(pod)


def test_what_is_left_of_an_answer_is_no_answer() -> None:
    """The process ended within a frame, whose bytes look like one; then a service wants to know what is left."""
    part = HEAD.pack(ARROW, 100) + HEAD.pack(LAST, 2) + b"{}"
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def end_amid_a_frame() -> None:
            connection, _ = listening.accept()
            with connection:
                nonce = greeted(TOKEN, connection.recv(1000))
                connection.sendall(welcome(TOKEN, nonce, 1) + frame(OUTPUT, part) + number(EXIT, -signal.SIGKILL))
                while connection.recv(1000):
                    pass

        thread = threading.Thread(target=end_amid_a_frame)
        thread.start()
        with closing(reached("127.0.0.1", listening.getsockname()[1], TOKEN, LONG_S)) as process:
            child = SparkChild(process, process.welcome(lambda: None))
            with pytest.raises(ChildEnded):
                next(child.ask(run("SELECT 1"), time.monotonic() + LONG_S))
            assert child.settle() is False
        thread.join()


@pytest.mark.parametrize("sign", [signal.SIGSEGV, signal.SIGKILL])
def test_the_end_of_the_process_is_told_with_its_cause(pod: Serving, sign: signal.Signals) -> None:
    with pod.asked() as child:
        asking = child.ask(run(LARGE, limit=None), time.monotonic() + LONG_S)
        next(asking)
        os.kill(pod.process.process.pid, sign)
        with pytest.raises(ChildEnded) as ended:
            for _ in asking:
                pass
        assert ended.value.code == -sign
        assert not child.is_alive
    works(pod)


def test_a_process_that_had_nothing_to_do_is_told_as_such(pod: Serving) -> None:
    with pod.asked() as child:
        stdin = pod.process.process.stdin
        assert stdin
        stdin.close()  # it ends as an idle one does
        with pytest.raises(ChildEnded) as ended:
            answer(child, run("SELECT 1"))
        assert ended.value.was_idle
    works(pod)


def test_one_that_ended_while_nobody_was_here_is_replaced(pod: Serving) -> None:
    works(pod)
    first = pod.process
    os.kill(first.process.pid, signal.SIGKILL)
    has_ended(first)
    works(pod)
    assert pod.process is not first


def test_an_answer_that_nobody_takes_ends_at_its_deadline(pod: Serving) -> None:
    """The kernel is first, and the rest of the answer does not keep others out."""
    with pod.asked() as child:
        asking = child.ask(run(LARGE, limit=None, seconds=0.2), time.monotonic() + LONG_S)
        next(asking)
        first = pod.process
        has_ended(first)
        with pytest.raises(ChildEnded) as ended:
            for _ in asking:
                pass
        assert ended.value.is_overdue
    works(pod)


def test_a_caller_that_reads_nothing_holds_the_pod_no_longer_than_its_query(pod: Serving) -> None:
    with pod.asked() as child:
        next(child.ask(run(LARGE, limit=None, seconds=0.2), time.monotonic() + LONG_S))
        works(pod)


def test_at_its_deadline_a_pod_that_says_nothing_is_left(pod: Serving) -> None:
    with pod.asked() as child:
        first = pod.process
        os.kill(first.process.pid, signal.SIGSTOP)  # as one that the kernel cannot end
        with pytest.raises(ChildEnded) as ended:
            next(child.ask(run("SELECT 1"), time.monotonic() + 0.1))
        assert ended.value.is_overdue
        works(pod)
    assert is_gone(first.process.pid)


def test_memory_does_not_grow_with_the_rows(pod: Serving) -> None:
    """A million rows, of some 200 MB. The pod is a part of this process."""
    wide = "SELECT range, repeat('x', 200) FROM range({})"
    with pod.asked() as child:
        answer(child, run(wide.format(10_000), limit=None))
        before = peak_mb(os.getpid())
        size = 0
        asking = child.ask(run(wide.format(1_000_000), limit=None), time.monotonic() + LONG_S)
        for piece in asking:
            size += len(piece)
    assert size > 200_000_000
    assert peak_mb(os.getpid()) - before < 30


def test_callers_take_turns(pod: Serving) -> None:
    with pod.asked() as first, closing(pod.connected()) as second:
        looks = iter((None, None))
        with pytest.raises(StopIteration):
            second.welcome(lambda: next(looks))
        answer(first, run("SELECT 1"))
        kept(first)
        assert second.welcome(lambda: None) == first.asked


def test_who_left_while_it_waited_costs_nobody_the_process(pod: Serving) -> None:
    works(pod)
    first = pod.process
    with pod.asked() as child:
        waiting = [pod.connected() for _ in range(3)]
        until(lambda: pod.pod._known == 4, lambda: "they do not wait")
        for one in waiting:
            one.close()
        kept(child)
    until(lambda: pod.pod._known == 0, lambda: "somebody stays")
    assert pod.process is first
    works(pod)


def test_without_callers_it_ends(tmp_path: Path) -> None:
    pod = Serving(tmp_path, idle_s=0.01)
    pod.thread.join()
    pod.close()
    assert not Path(pod.process._scratch).exists()


def test_a_caller_who_is_not_known_does_not_keep_it(tmp_path: Path) -> None:
    pod = Serving(tmp_path, idle_s=0.01)
    with socket.create_connection((pod.place.host, pod.place.port)):
        pod.thread.join()
        pod.close()


# --- how a query comes to it ------------------------------------------------------------------------


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


def wish(pool: QueryPool, seconds: float = LONG_S, cancel: Cancel | None = None) -> Wish:
    return Wish(pool, cancel or Cancel(), time.monotonic() + seconds, seconds)


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
def test_who_listens_at_the_address_by_chance_learns_nothing_and_is_not_asked(pod: Serving, said: bytes) -> None:
    """As where it was given to another pod meanwhile."""
    heard = list[bytes]()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_it() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(said)
                while piece := connection.recv(1000):
                    heard.append(piece)

        thread = threading.Thread(target=answer_it)
        thread.start()
        stranger = PodPlace("127.0.0.1", listening.getsockname()[1], TOKEN)
        with pool_of(Pods(stranger, pod.place)) as pool:
            child = pool.reach(wish(pool))
            assert answer(child, run("SELECT 1"))["rows"] == 1
            pool.put_back(child, is_sound=True)
        thread.join()
    assert TOKEN.encode() not in b"".join(heard)
    assert b"SELECT" not in b"".join(heard)


def test_a_pod_that_is_gone_is_looked_for(pod: Serving, tmp_path: Path) -> None:
    earlier = Serving(tmp_path / "earlier")
    with pool_of(Pods(earlier.place, pod.place)) as pool:
        pool.put_back(pool.reach(wish(pool)), is_sound=True)
        earlier.close()
        child = pool.reach(wish(pool))
        assert answer(child, run("SELECT 1"))["rows"] == 1
        pool.put_back(child, is_sound=True)


def test_what_the_cluster_says_is_told_at_the_deadline() -> None:
    with pool_of(Pods("waits for room in a quota: cpu")) as pool, pytest.raises(QueryLimit, match="quota: cpu"):
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
    with pool_of(Pods(EngineUnavailable("no image"))) as pool, pytest.raises(EngineUnavailable, match="no image"):
        pool.reach(wish(pool))


def test_another_replica_s_query_is_waited_for_until_the_deadline(pod: Serving) -> None:
    with pool_of(Pods(pod.place)) as pool, pod.asked(), pytest.raises(QueriesBusy, match="other replicas"):
        pool.reach(wish(pool, 0.05))


def cancelled(pool: SparkPodPool) -> None:
    cancel = Cancel()
    cancel.cancel()
    pool.reach(wish(pool, cancel=cancel))


def closed(pool: SparkPodPool) -> None:
    pool.close()
    pool.reach(wish(pool))


@pytest.mark.parametrize(("ends", "error"), [(cancelled, QueryCancelled), (closed, QueriesBusy)])
def test_who_waits_no_more_is_not_kept(ends: Callable[[SparkPodPool], None], error: type[Exception]) -> None:
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

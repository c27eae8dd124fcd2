"""A process that answers queries, over TCP: who is let in, whose turn it is, and what an end on
either side costs.

The process behind it is DuckDB's, which starts in a moment; `tests/spark/test_query_pod.py` has
Spark's.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controlplane.drivers.transport import ChildEnded, reached
from controlplane.services.queries.adapter.query_child import QueryChild, SparkChild
from dataplane.contract.query_pods import (
    EXIT,
    KEEP,
    OUTPUT,
    POD,
    frame,
    greeted,
    hello,
    number,
    proof,
    welcome,
)
from dataplane.contract.query_protocol import ARROW, HEAD, LAST
from dataplane.runtime.query_pod.query_process import ProcessKind, QueryProcess
from tests.e2e.workspace import until
from tests.unit.queries.pod_world import (
    DUCKDB,
    LONG_S,
    NONCE,
    TOKEN,
    Serving,
    answer,
    has_ended,
    kept,
    run,
    works,
)
from tests.unit.queries.test_processes import ENDLESS, LARGE, is_gone, peak_mb

# A limit that a busy machine keeps until the first piece of an answer, and soon over
FIRST_PIECE_S = 2.0


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """It is sound after each test, whatever became of its process."""
    serving = Serving(tmp_path_factory.mktemp("lake"))
    try:
        yield serving
    finally:
        serving.close()


def test_the_process_waits_for_the_next_caller(pod: Serving) -> None:
    first = pod.process
    with pod.asked() as child:
        before = child.question_number
        answer(child, run("SELECT 1"))
        answer(child, {"ask": "inspect", "sql": "SELECT 1"})
        assert child.is_alive
        kept(child)
    with pod.asked() as child:
        assert child.question_number == before + 2
        assert answer(child, run("FROM range(100)"))["more"] is True
        assert pod.process is first
        kept(child)


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


@pytest.mark.parametrize(
    "sent", [b"", b"I\0\0\0\5ab", b"\xff" * 200, b"I\xff\xff\xff\xff", b"K\0\0\0\1x", b"I\0"]
)
def test_a_connection_that_breaks_or_makes_no_sense_ends_the_process(
    pod: Serving, sent: bytes
) -> None:
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
        with closing(
            reached(pod.place.host, pod.place.port, TOKEN, LONG_S, beat_s=LONG_S)
        ) as process:
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
        child.transport.write(b'{"ask": "run", "sq')
    works(pod)


def test_what_is_left_of_an_answer_is_no_answer() -> None:
    """The process ended within a frame, whose bytes look like one; then a service wants to know
    what is left."""
    part = HEAD.pack(ARROW, 100) + HEAD.pack(LAST, 2) + b"{}"
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def end_amid_a_frame() -> None:
            connection, _ = listening.accept()
            with connection:
                nonce = greeted(TOKEN, connection.recv(1000))
                connection.sendall(
                    welcome(TOKEN, nonce, 1) + frame(OUTPUT, part) + number(EXIT, -signal.SIGKILL)
                )
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


def test_a_question_that_is_stopped_before_it_is_asked_never_goes_to_the_process(
    pod: Serving,
) -> None:
    with closing(pod.connected()) as process:
        child = SparkChild(process, process.welcome(lambda: None))
        before = child.question_number
        child.stop()
        assert answer(child, run(LARGE, limit=None))["refusal"]["kind"] == "stopped"
        assert child.settle() is True
        assert child.question_number == before
        kept(child)
    works(pod)


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
        asking = child.ask(run(LARGE, limit=None, seconds=FIRST_PIECE_S), time.monotonic() + LONG_S)
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
        next(child.ask(run(LARGE, limit=None, seconds=FIRST_PIECE_S), time.monotonic() + LONG_S))
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
        assert second.welcome(lambda: None) == first.question_number


def test_who_left_while_it_waited_costs_nobody_the_process(pod: Serving) -> None:
    works(pod)
    first = pod.process
    with pod.asked() as child:
        waiting = [pod.connected() for _ in range(3)]
        until(lambda: pod.pod._callers == 4, lambda: "they do not wait")
        for one in waiting:
            one.close()
        kept(child)
    until(lambda: pod.pod._callers == 0, lambda: "somebody stays")
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


def test_a_process_that_was_closed_is_not_ready(tmp_path: Path) -> None:
    child = QueryProcess(ProcessKind(str(tmp_path), 200 << 20, 10 << 20, LONG_S, DUCKDB))
    child.close()
    assert not child.is_ready

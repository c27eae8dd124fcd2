"""Signals that ask for an end, whichever thread the kernel gives them to."""

from __future__ import annotations

import signal
import threading

from controlplane.cli.signals import ending, outlast

HANGS_S = 60.0


def test_a_signal_that_another_thread_was_given_is_seen() -> None:
    interrupted, waits = threading.Event(), threading.Event()
    answers: list[bool] = []

    def work() -> None:
        waits.wait(HANGS_S)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        answers.append(interrupted.wait(HANGS_S))

    thread = threading.Thread(target=work)
    thread.start()

    def is_over(seconds: float) -> bool:
        waits.set()
        thread.join(seconds)
        return not thread.is_alive()

    with ending(interrupted.set):
        outlast(is_over)
    assert answers == [True]

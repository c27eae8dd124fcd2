"""Ending in good order: the first SIGINT or SIGTERM asks for it, the second ends the process as
usual."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)
LOOK_S = 0.5  # so often the main thread sees a signal that the kernel gave to another one


@contextmanager
def ending(ask: Callable[[], None]) -> Iterator[None]:
    """Call `ask` at the first signal, in a thread of its own: a handler must not wait for locks
    that it interrupts."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        for each, before in earlier.items():
            signal.signal(each, before)
        threading.Thread(target=ask, name="ending").start()

    earlier = {number: signal.signal(number, handle) for number in ENDING}
    try:
        yield
    finally:
        for each, before in earlier.items():
            signal.signal(each, before)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as SIGINT does: for what only waits, and can be left at any
    time."""
    earlier = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


def outlast(is_over: Callable[[float], object]) -> None:
    """Wait in the main thread until `is_over`, which waits for so many seconds itself, says so.

    Handlers run in the main thread, which a signal wakes only if the kernel has given it to that
    very thread.
    """
    while not is_over(LOOK_S):
        pass

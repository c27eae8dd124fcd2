"""A process that answers questions ends with its parent, also in the middle of an answer."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

STUCK = """
import signal, subprocess, sys
from dataplane.runtime import parent_watch
for question in parent_watch.questions(sys.stdin):
    if question == "stuck\\n":
        subprocess.Popen(["sleep", "1000"])  # as Spark's JVM does, it holds the standard output open
        print("busy", flush=True)
        signal.pause()
    print("answer", flush=True)
print("in good order", flush=True)
"""


def started() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", STUCK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_the_end_of_the_parent_ends_an_answer_and_all_that_it_started() -> None:
    with started() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("stuck\n")
        process.stdin.flush()
        assert process.stdout.readline() == "busy\n"
        process.stdin.close()
        assert process.stdout.read() == ""  # the end of the pipe: no process is left that holds it
    assert process.returncode == -signal.SIGKILL


def test_it_ends_in_good_order_between_two_questions() -> None:
    with started() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("easy\n")
        process.stdin.flush()
        assert process.stdout.readline() == "answer\n"
        process.stdin.close()
        assert process.stdout.read() == "in good order\n"
    assert process.returncode == 0

"""The process of a service that runs tests: one question at a time, and it ends when nobody
asks."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import QueriesBusy
from controlplane.services.examples.adapter import shared_examples
from controlplane.services.examples.adapter.process import ExampleProcess
from controlplane.services.examples.adapter.shared_examples import SharedExamples
from tests.e2e.workspace import until
from tests.unit.drivers.test_example_process import infer

pytestmark = pytest.mark.unit

ANSWERS = """
import json, os, sys
for line in sys.stdin:
    path = json.loads(line)["file"]["path"]
    if path.endswith("fifo"):
        open(path).read()
    print(json.dumps({"schema": {"pid": os.getpid()}}), flush=True)
"""
process = partial(ExampleProcess, {"PATH": "/usr/bin"}, (sys.executable, "-c", ANSWERS))


def asked(shared: SharedExamples, path: str = "a.csv") -> int:
    found: Any = shared.ask(infer(path))
    return int(found["schema"]["pid"])


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_one_question_at_a_time(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    shared = SharedExamples(60.0, process)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(asked, shared, str(fifo))
        with fifo.open("w"), pytest.raises(QueriesBusy, match="runs another test now"):
            shared.ask(infer("a.csv"))
        pid = first.result()
    assert asked(shared) == pid
    shared.close()
    assert not is_alive(pid)
    with pytest.raises(QueriesBusy):
        asked(shared)


def test_it_ends_when_nobody_asks_and_starts_again() -> None:
    shared = SharedExamples(0.0, process)
    pid = asked(shared)
    until(lambda: not is_alive(pid), lambda: "the process ends")
    assert asked(shared) != pid
    shared.close()


def test_it_ends_after_so_many_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_examples, "QUESTIONS", 2)
    shared = SharedExamples(60.0, process)
    first, second, third = (asked(shared) for _ in range(3))
    assert first == second != third
    shared.close()

"""The process that runs tests of blueprints: it answers, is replaced once it has died, and ends
with the block."""

from __future__ import annotations

import sys

import pytest

from controlplane.services.examples.adapter.process import ExampleProcess
from controlplane.services.examples.port import RunnerLost
from dataplane.contract.example_protocol import Question
from dataplane.contract.schemas import struct_of

pytestmark = pytest.mark.unit

ANSWERS = """
import json, os, sys
for line in sys.stdin:
    if json.loads(line)["file"]["path"] == "dies":
        sys.stderr.write("before\\nlast words\\n")
        os._exit(3)
    while json.loads(line)["file"]["path"] == "endless":
        pass
    print(json.dumps({"schema": {"type": "struct", "fields": []}}), flush=True)
"""


def infer(path: str) -> Question:
    source = {"format": "csv", "options": {}, "timezone": "UTC"}
    return {"ask": "infer", "file": {"path": path, "source": source, "schema": None}}  # type: ignore[typeddict-item]


def test_one_that_died_is_replaced() -> None:
    with ExampleProcess({"PATH": "/usr/bin"}, (sys.executable, "-c", ANSWERS)) as process:
        assert process.ask(infer("a.csv")) == {"schema": struct_of([])}
        with pytest.raises(RunnerLost, match="ended without an answer: last words"):
            process.ask(infer("dies"))
        assert process.ask(infer("a.csv")) == {"schema": struct_of([])}


def test_one_that_has_no_end_is_ended_and_replaced() -> None:
    with ExampleProcess(
        {"PATH": "/usr/bin"}, (sys.executable, "-c", ANSWERS), longest_s=2.0
    ) as process:
        with pytest.raises(RunnerLost, match="took longer than 2 s"):
            process.ask(infer("endless"))
        assert process.ask(infer("a.csv")) == {"schema": struct_of([])}

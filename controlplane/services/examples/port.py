"""What runs the tests of blueprints: a process of the data plane that answers questions, one at a
time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from controlplane.core.errors import EngineUnavailable, HeadgateError
from dataplane.contract.example_protocol import Answer, Question


class RunnerLost(HeadgateError):
    """The process ended without an answer. The next question goes to a new process."""

    code = "driver-lost"


class ExampleRunner(Protocol):
    def ask(self, question: Question) -> Answer:
        """Waits for the answer. Raises RunnerLost."""


@dataclass(frozen=True, slots=True)
class NoExamples:
    """Where a service answers no questions. `reason`: why, and what to do."""

    reason: str = "this service runs no tests of blueprints: run them on your own machine"

    def ask(self, question: Question) -> Answer:  # noqa: ARG002
        raise EngineUnavailable(self.reason)

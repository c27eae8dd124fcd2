"""A failure in a Python worker of Spark's reaches the driver within the text of a traceback."""

from __future__ import annotations

import pytest

from dataplane.task_failures import TaskFailure, of_worker, to_driver


def test_a_failure_comes_back_from_the_text_of_a_traceback() -> None:
    raised = to_driver(TaskFailure("unreachable", 'no "answer"\nat all', "infrastructure"))
    found = of_worker(
        f"Traceback (most recent call last):\n  File x\nRuntimeError: {raised}\n\tat org.apache.spark"
    )
    assert found is not None
    assert (found.condition, found.message, found.kind) == (
        "unreachable",
        'no "answer"\nat all',
        "infrastructure",
    )


@pytest.mark.parametrize(
    "said", ["no such file", "TaskFailure of a worker: not JSON", "TaskFailure of a worker: [1]"]
)
def test_what_users_code_says_is_none(said: str) -> None:
    assert of_worker(f"Traceback\nRuntimeError: {said}\n") is None

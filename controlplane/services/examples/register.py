"""Tests of blueprints: the process of the data plane that runs them."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from controlplane.settings import Settings

if TYPE_CHECKING:
    from controlplane.services.examples.port import ExampleRunner


def examples(settings: Settings, ends: ExitStack, *, is_service: bool) -> ExampleRunner:
    """It has a process once there is a question, which `ends` ends. It runs code of users as this
    process's user, so there is none where drivers have another one."""
    from controlplane.services.examples.port import NoExamples

    if not is_service or settings.pool != "local" or settings.driver_user is not None:
        return NoExamples()
    from controlplane.services.examples.adapter.shared_examples import SharedExamples

    shared = SharedExamples(settings.driver_idle_s)
    ends.callback(shared.close)
    return shared


def process() -> AbstractContextManager[ExampleRunner]:
    """A process of its own; leaving the context ends it."""
    from controlplane.services.examples.adapter.process import ExampleProcess

    return ExampleProcess()

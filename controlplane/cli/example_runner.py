"""The process that answers questions of tests: the Spark of a service that runs, else one of our
own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import httpx2

from controlplane import settings
from controlplane.cli.session import Session, service_of
from controlplane.client import ApiError, Headgate
from controlplane.core.errors import NoToken
from controlplane.services.examples.asking import paths_of
from controlplane.services.examples.port import ExampleRunner, RunnerLost
from dataplane.contract.example_protocol import Answer, Question

# Of files that go with a question: a request has 5 MB, and base64 takes a third more
MOST_BYTES = 3_000_000


@contextmanager
def example_runner(session: Session, home: Path | None = None) -> Iterator[ExampleRunner]:
    """The service of HEADGATE_URL, else the one that holds the home; an own process once it does
    not answer."""
    chosen = settings.read(home)
    service = service_of(chosen)
    with ExitStack() as ends:
        client = None
        if service is not None and service.has_loop:
            try:
                client = ends.enter_context(service.open(chosen))
            except (NoToken, httpx2.HTTPError, ApiError) as e:
                _say(e)
        runner = ServiceFirst(session, ends, client)
        if client is None:
            runner.start_own()
        yield runner


@dataclass(slots=True)
class ServiceFirst:
    """Asks `client`, until that does not answer; `ends` ends the process that is then started."""

    session: Session
    ends: ExitStack
    client: Headgate | None
    own: ExampleRunner | None = None

    def ask(self, question: Question) -> Answer:
        answer = self._of_service(question) if self.client is not None else None
        return self.start_own().ask(question) if answer is None else answer

    def start_own(self) -> ExampleRunner:
        if self.own is None:
            self.own = self.ends.enter_context(self.session.runtime.examples())
        return self.own

    def _of_service(self, question: Question) -> Answer | None:
        """None where it does not answer. Raises RunnerLost where its Spark ended over the
        question."""
        assert self.client is not None
        files = _contents(question)
        if files is None:
            return None
        try:
            return cast("Answer", self.client.ask_test(question, files))
        except ApiError as e:
            if e.code == RunnerLost.code:
                raise RunnerLost(str(e)) from e
            _say(e)
        except httpx2.HTTPError as e:
            _say(e)
        self.client = None
        return None


def _contents(question: Question) -> dict[str, bytes] | None:
    """The files that a question names. None where they are too large to be sent, or where one
    cannot be read: our own process reports that."""
    contents, left = {}, MOST_BYTES
    for path in paths_of(question):
        try:
            with Path(path).open("rb") as file:
                contents[path] = file.read(left + 1)
        except OSError:
            return None
        left -= len(contents[path])
        if left < 0:
            return None
    return contents


def _say(error: Exception) -> None:
    sys.stderr.write(f"headgate: the service runs no test ({error}): Spark starts here\n")

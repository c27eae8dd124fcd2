"""One engine: a run goes through the service that there is, and is made in this process only where
there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from controlplane.cli import once, service_run
from controlplane.cli.session import Service, Session, service_of
from controlplane.cli.signals import ending
from controlplane.core.errors import HomeLocked
from controlplane.home import Holder, Home
from controlplane.settings import Settings

if TYPE_CHECKING:
    from controlplane.core.model.answers import RunAnswer

STARTS_WITHIN_S = 30.0  # a holder says by then where it listens
LOOK_S = 0.1
# Roles of holders that end by themselves
BRIEF = {"run": "`headgate run`", "list": "a command that lists sources"}


def make(
    session: Session,
    chosen: Settings,
    request: once.RunRequest,
    on_progress: Callable[[Any], None],
    *,
    since: float,
    pause: Callable[[float], None] = time.sleep,
) -> RunAnswer:
    """The JSON of `run`. Where another `run` holds the home, this one waits for its end, and says
    so. Raises HomeLocked where a holder does not announce its role."""
    while True:
        service = service_of(chosen)
        if service is not None and service.has_loop:
            return _through(service, chosen, request, on_progress, since=since)
        try:
            return _here(session, chosen, request, on_progress, since=since)
        except HomeLocked as error:
            _wait(Home(chosen.home), error, pause)


def say(service: Service) -> None:
    """Print which service is used."""
    sys.stderr.write(f"headgate: using {service.words}\n")
    sys.stderr.flush()


def _through(
    service: Service,
    chosen: Settings,
    request: once.RunRequest,
    on_progress: Callable[[Any], None],
    *,
    since: float,
) -> RunAnswer:
    with service.open(chosen) as client:
        say(service)
        waiting = service_run.Waiting(service, client, request.branch, on_progress)
        return service_run.make(service, client, request, waiting, since=since)


def _here(
    session: Session,
    chosen: Settings,
    request: once.RunRequest,
    on_progress: Callable[[Any], None],
    *,
    since: float,
) -> RunAnswer:
    """Raises HomeLocked before anything is done."""
    with ExitStack() as until_the_end:
        server = until_the_end.enter_context(session.runtime.start(chosen, "run"))
        until_the_end.enter_context(ending(server.interrupt))
        return once.make(server, request, on_progress, since=since)


def _wait(home: Home, error: HomeLocked, pause: Callable[[float], None]) -> None:
    """Until the holder listens or has ended."""
    holder = _announced_holder(home, pause)
    if holder is None and home.is_held():
        raise error
    if holder is None or holder["role"] not in BRIEF:
        return
    words = f"headgate: waiting for {BRIEF[holder['role']]} (process {holder['pid']}), which holds {home.path}\n"
    sys.stderr.write(words)
    sys.stderr.flush()
    home.wait_until_free()


def _announced_holder(home: Home, pause: Callable[[float], None]) -> Holder | None:
    """The holder's announcement, once it comes: that of a `serve` has its address, too. None if the
    home is free, or no announcement comes."""
    for _ in range(int(STARTS_WITHIN_S / LOOK_S)):
        holder = home.holder()
        if not home.is_held():
            return None
        if holder is not None and (holder["url"] or holder["role"] in BRIEF):
            return holder
        pause(LOOK_S)
    return None

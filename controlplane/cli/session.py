"""The session of a command: how to start a control plane in this process, and how to reach one."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from controlplane import settings
from controlplane.core.errors import HeadgateError, HomeLocked, NoToken
from controlplane.home import Home

if TYPE_CHECKING:
    from controlplane.cli.sources import BlueprintText
    from controlplane.cli.stopped_home import StoppedHome
    from controlplane.client import Headgate
    from controlplane.operations.context import Context
    from controlplane.ports.store import Store
    from controlplane.services.examples.port import ExampleRunner

Output: TypeAlias = Literal["table", "json", "yaml", "md"]
Role: TypeAlias = Literal["look", "show", "list", "run", "serve"]
HELD_LOOK_S = 0.2  # between looks at a home that another process holds


class NoService(HeadgateError):
    """The command waits for work, and no service runs to do it."""

    code = "no-service"


class Running(Protocol):
    """A control plane in this process."""

    url: str
    token: str
    stopping: threading.Event
    failure: Exception | None  # why it ends, unless on request

    @property
    def store(self) -> Store: ...

    @property
    def drivers_started(self) -> int:
        """How many Spark processes were started so far."""

    def context(self, actor: str) -> Context: ...

    def settle(
        self,
        flows: Iterable[str],
        branch: str,
        on_progress: Callable[[Any], None],
        again: Callable[[], bool],
    ) -> str: ...

    def interrupt(self) -> None: ...


class CliRuntime(Protocol):
    """The parts of the command line that import everything; `controlplane.__main__` passes them
    in."""

    def start(
        self, settings: settings.Settings, role: Role, host: str = ..., port: int = ...
    ) -> AbstractContextManager[Running]:
        """A control plane in this process; leaving the context ends it."""

    def read(self, settings: settings.Settings) -> AbstractContextManager[Context]:
        """The database of a home, for operations that change nothing; without an API."""

    def examples(self) -> AbstractContextManager[ExampleRunner]:
        """A process that runs tests of blueprints; leaving the context ends it."""

    def upgrade(self, database_url: str) -> None: ...

    def version(self, database_url: str) -> str | None: ...


@dataclass(slots=True)
class Session:
    """One invocation of the command. `output` is set as soon as the command knows it, for errors to
    follow it.

    `names` maps the absolute names of blueprints to those that the user typed.
    """

    runtime: CliRuntime
    output: Output = "table"
    names: dict[str, str] = field(default_factory=dict)
    # Near enough to the start of the process
    started: float = field(default_factory=time.monotonic)
    # Set by `connect`; None: an API of our own, which computes nothing
    service: Service | None = None

    def load(self, files: Sequence[Path]) -> tuple[BlueprintText, ...]:
        """Read blueprints, and remember their names for messages."""
        from controlplane.cli import sources

        base = settings.blueprint_base()
        for file in files:
            self.names[str(file.absolute())] = self.names[sources.sent_name(file, base)] = str(file)
        return sources.load(files, base)

    @contextmanager
    def connect(
        self, home: Path | None, role: Role = "look", wait_s: float = 0.0
    ) -> Iterator[Headgate]:
        """The service of HEADGATE_URL, else the one that holds the home, else an API of our own on
        that home; with a worker where the role is `list`. `wait_s`: how long to wait for a home
        that another process holds, and that has no service."""
        from controlplane.client import Headgate

        chosen = settings.read(home)
        deadline = time.monotonic() + wait_s
        with ExitStack() as ends:
            while (service := service_of(chosen)) is None:
                try:
                    own = ends.enter_context(self.runtime.start(chosen, role))
                except HomeLocked:
                    if time.monotonic() >= deadline:
                        raise
                    time.sleep(HELD_LOOK_S)
                else:
                    self.service = None
                    yield ends.enter_context(Headgate(own.url, own.token))
                    return
            self.service = service
            yield ends.enter_context(service.open(chosen))

    @contextmanager
    def read(self, home: Path | None) -> Iterator[Headgate | StoppedHome]:
        """The service as by `connect`; without one, the database of the home."""
        chosen = settings.read(home)
        if service_of(chosen) is not None:
            with self.connect(home) as client:
                yield client
            return
        from controlplane.cli.stopped_home import StoppedHome

        with self.runtime.read(chosen) as context:
            yield StoppedHome(context)

    @contextmanager
    def service_client(self, home: Path | None) -> Iterator[Headgate | None]:
        """The client of a service that runs, or None. Nothing is started."""
        chosen = settings.read(home)
        service = service_of(chosen)
        if service is None:
            yield None
            return
        with service.open(chosen) as client:
            yield client

    @contextmanager
    def connect_if_there(self, home: Path | None) -> Iterator[Headgate | None]:
        """The client of `connect`, or None where there is neither a service nor a home. No home is
        made."""
        chosen = settings.read(home)
        if service_of(chosen) is None and not Home(chosen.home).is_there():
            yield None
            return
        with self.connect(home) as client:
            yield client

    @contextmanager
    def connect_to_list(
        self, home: Path | None, timeout_s: float | None
    ) -> Iterator[tuple[Headgate, float | None]]:
        """As `connect`, for a look at sources that may take so long; with the time for it. None:
        sources are left alone, as they are where neither a service nor this process has workers."""
        if timeout_s is not None and not self._has_workers(home):
            sys.stderr.write(
                "headgate: sources are told as they were last listed: HEADGATE_POOL leaves no worker here\n"
            )
            timeout_s = None
        role: Role = "look" if timeout_s is None else "list"
        with self.connect(home, role, wait_s=timeout_s or 0.0) as client:
            yield client, timeout_s

    def _has_workers(self, home: Path | None) -> bool:
        chosen = settings.read(home)
        return chosen.pool == "local" or service_of(chosen) is not None

    def require_service(self) -> Service:
        """The service that is used. Raises NoService."""
        hint = "`headgate run` makes blueprints so and ends, `headgate serve` is a service"
        if self.service is None:
            raise NoService(
                f"no service runs on this home, so nobody does what is to be waited for; {hint}"
            )
        return self.service

    def require_loop(self) -> Service:
        """The same; but the process of a `run` works on its own dataflows only."""
        service = self.require_service()
        if not service.has_loop:
            raise NoService(
                f"{service.words} ends when its own dataflows are made: use `headgate run`, which waits for it"
            )
        return service


@dataclass(frozen=True, slots=True)
class Service:
    """A control plane in another process. `held`: the home that it holds, where it was found by
    that."""

    url: str
    held: Path | None = None
    pid: int = 0
    has_loop: bool = True

    @property
    def words(self) -> str:
        """The name of the service in messages."""
        if self.held is None:
            return f"the service at {self.url}"
        kind = "service" if self.has_loop else "`headgate run`"
        return f"the {kind} that holds {self.held} (process {self.pid}, {self.url})"

    @contextmanager
    def open(self, chosen: settings.Settings) -> Iterator[Headgate]:
        """Raises NoToken; an error of httpx2 where the service does not answer."""
        from controlplane.client import Headgate

        token = chosen.token or self._of_job(chosen) or Home(chosen.home).token()
        if token is None:
            with Headgate(self.url, "none") as client:
                client.require_alive()
            raise NoToken(f"set HEADGATE_TOKEN to a token of {self.url}")
        with Headgate(self.url, token) as client:
            yield client

    def _of_job(self, chosen: settings.Settings) -> str | None:
        """For the CI job that this runs in, where that has an identity and HEADGATE_URL says whom
        to show it. Raises NoToken; but where the home has a token, that is left to it."""
        if chosen.url is None or chosen.job is None:
            return None
        from controlplane.cli import job_identity

        try:
            return job_identity.token(self.url, chosen.job)
        except NoToken:
            if Home(chosen.home).token() is None:
                raise
            return None


def service_of(chosen: settings.Settings) -> Service | None:
    """The service of HEADGATE_URL, else the process that holds the home, if it has announced its
    address."""
    if chosen.url is not None:
        return Service(chosen.url)
    home = Home(chosen.home)
    holder = home.holder() if home.is_held() else None
    if holder is None or not holder["url"]:
        return None
    return Service(holder["url"], chosen.home, holder["pid"], has_loop=holder["role"] != "run")

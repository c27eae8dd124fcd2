"""What commands are given: how to start a control plane in this process, and how to reach one.

Does not belong here: what is asked of it, and how answers are shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from controlplane import settings
from controlplane.core.errors import HeadgateError
from controlplane.home import Home

if TYPE_CHECKING:
    from controlplane.cli.sources import BlueprintText
    from controlplane.client import Headgate
    from controlplane.operations.context import Context
    from controlplane.ports.examples import ExampleRunner
    from controlplane.ports.store import Store

Output: TypeAlias = Literal["table", "json", "yaml", "md"]
Role: TypeAlias = Literal["look", "run", "serve"]


class NoToken(HeadgateError):
    """There is a server, but nothing to show it."""

    code = "no-token"


class NoService(HeadgateError):
    """Nobody computes, and what is asked for is to wait until that is done."""

    code = "no-service"


class Running(Protocol):
    """A control plane in this process."""

    url: str
    token: str
    stopping: threading.Event
    failure: Exception | None  # why it ends, if nobody asked it to

    @property
    def store(self) -> Store: ...

    @property
    def drivers_started(self) -> int:
        """How many Spark processes were started so far."""

    def context(self, actor: str) -> Context: ...

    def settle(
        self, flows: Iterable[str], branch: str, on_progress: Callable[[Any], None], again: Callable[[], bool]
    ) -> str: ...

    def interrupt(self) -> None: ...


class CliRuntime(Protocol):
    """What the command line is given by who may import everything."""

    def start(
        self, settings: settings.Settings, role: Role, host: str = ..., port: int = ...
    ) -> AbstractContextManager[Running]:
        """A control plane in this process; leaving the context ends it."""

    def examples(self) -> AbstractContextManager[ExampleRunner]:
        """A process that runs tests of blueprints; leaving the context ends it."""

    def upgrade(self, database_url: str) -> None: ...

    def version(self, database_url: str) -> str | None: ...


@dataclass(slots=True)
class Session:
    """One invocation of the command. `output` is set as soon as the command knows it, for errors to follow it.

    `names` maps the absolute names of blueprints to what the user typed.
    """

    means: CliRuntime
    output: Output = "table"
    names: dict[str, str] = field(default_factory=dict)
    is_served: bool = True  # told by `connect`: an API of our own computes nothing

    def load(self, files: Sequence[Path]) -> tuple[BlueprintText, ...]:
        """Read blueprints, and remember their names for messages."""
        from controlplane.cli import sources

        self.names.update({str(f.absolute()): str(f) for f in files})
        return sources.load(files)

    @contextmanager
    def connect(self, home: Path | None, role: Role = "look") -> Iterator[Headgate]:
        """The service of HEADGATE_URL, else the one that holds the home, else an API of our own on that home; with a
        worker where the role is `run`."""
        from controlplane.client import Headgate

        found = settings.read(home)
        if found.url is not None:
            with Headgate(found.url, _token(found)) as client:
                yield client
            return
        held = _served(Home(found.home))
        if held is not None:
            with Headgate(held, _token(found)) as client:
                yield client
            return
        self.is_served = False
        with self.means.start(found, role) as own, Headgate(own.url, own.token) as client:
            yield client

    def require_service(self) -> None:
        """Raises NoService where nobody would do what is to be waited for."""
        if not self.is_served:
            hint = "`headgate run` makes blueprints so and ends, `headgate serve` is a service"
            raise NoService(f"no service runs on this home, so nobody does what is to be waited for; {hint}")


def _token(found: settings.Settings) -> str:
    token = found.token or Home(found.home).token()
    if token is None:
        raise NoToken(f"set HEADGATE_TOKEN to a token of {found.url or 'the server'}")
    return token


def _served(home: Home) -> str | None:
    """The address of the process that holds this home, if there is one and it has said where it listens."""
    holder = home.holder() if home.is_held() else None
    return (holder["url"] or None) if holder else None

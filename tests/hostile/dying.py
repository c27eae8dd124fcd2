"""A control plane whose loop ends; the arguments are those of the command."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import cached_property

from controlplane.__main__ import Bootstrap
from controlplane.bootstrap import Server
from controlplane.cli.main import run
from controlplane.cli.session import Role, Running
from controlplane.parts.leading import Leading
from controlplane.reconciler.leader import FencedStore
from controlplane.reconciler.wake import Ends
from controlplane.settings import Settings


class DyingLoop(Leading):
    """Ends once it leads."""

    def lead(self, store: FencedStore, over: Ends) -> None:
        raise SystemExit("a library thought that it was time to leave")


class Dying(Server):
    @cached_property
    def leading(self) -> Leading:
        return DyingLoop(self, self.pools)


class Means(Bootstrap):
    def start(
        self, settings: Settings, role: Role, host: str = "127.0.0.1", port: int = 0
    ) -> AbstractContextManager[Running]:
        return Dying(settings, role, host, port)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], Means()))

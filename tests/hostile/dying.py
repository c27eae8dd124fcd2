"""A control plane whose loop ends; the arguments are those of the command."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from controlplane.__main__ import Bootstrap
from controlplane.bootstrap import Server
from controlplane.cli.main import run
from controlplane.cli.session import Role, Running
from controlplane.reconciler.leader import FencedStore
from controlplane.reconciler.wake import Ends
from controlplane.settings import Settings


class Dying(Server):
    """Ends its own loop once it leads."""

    def _lead(self, store: FencedStore, over: Ends) -> None:
        raise SystemExit("a library thought that it was time to leave")


class Means(Bootstrap):
    def start(
        self, settings: Settings, role: Role, host: str = "127.0.0.1", port: int = 0
    ) -> AbstractContextManager[Running]:
        return Dying(settings, role, host, port)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], Means()))

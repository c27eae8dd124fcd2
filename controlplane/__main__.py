"""The command `headgate`: the command line, given the means to start a control plane in its own
process."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from controlplane.garbage import collect_rarely

if TYPE_CHECKING:
    from controlplane.cli.session import Role, Running
    from controlplane.operations.context import Context
    from controlplane.services.examples.port import ExampleRunner
    from controlplane.settings import Settings


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        from controlplane.cli.version import write_version

        write_version()
        return
    from controlplane.cli.main import run

    collect_rarely()
    os.environ |= _mounted()
    code = run(sys.argv[1:], Bootstrap())
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # their reader has left
            stream.flush()
    # All that we began is ended; taking every module apart would cost a short run a tenth of its
    # time
    os._exit(code)


def _mounted() -> dict[str, str]:
    """Credentials of the lake, for this process and its children."""
    from controlplane.settings import BadSetting, mounted

    try:
        return mounted(os.environ)
    except BadSetting as e:
        sys.stderr.write(f"error: {e}\n")
        sys.exit(1)


class Bootstrap:
    """Imports what makes a control plane only when a command asks for one."""

    def start(
        self, settings: Settings, role: Role, host: str = "127.0.0.1", port: int = 0
    ) -> AbstractContextManager[Running]:
        from controlplane.bootstrap import Server

        return Server(settings, role, host, port)

    def read(self, settings: Settings) -> AbstractContextManager[Context]:
        from controlplane.bootstrap import read

        return read(settings)

    def examples(self) -> AbstractContextManager[ExampleRunner]:
        from controlplane.bootstrap import example_runner

        return example_runner()

    def upgrade(self, database_url: str) -> None:
        from controlplane.bootstrap import upgrade

        upgrade(database_url)

    def version(self, database_url: str) -> str | None:
        from controlplane.bootstrap import version

        return version(database_url)


if __name__ == "__main__":
    main()

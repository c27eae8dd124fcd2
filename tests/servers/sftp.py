"""A throw-away SFTP server on a free loopback port: Go's `pkg/sftp`, built once and kept in the
user's cache. Needs Go for the first time."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import paramiko

from tests.servers.programs import kept
from tests.tools import on_path

SOURCE = Path(__file__).with_name("sftp_server")
USER, PASSWORD = "app", "a password of tests"


@dataclass(frozen=True)
class Sftp:
    """`private_key`: of the user."""

    url: str
    fingerprint: str
    private_key: str


@contextmanager
def sftp_server(folder: Path) -> Iterator[Sftp]:
    """A server of all files that this process may read; `folder` holds what the server needs."""
    key = paramiko.RSAKey.generate(2048)
    public = folder / "user.pub"
    public.write_text(f"{key.get_name()} {key.get_base64()}\n")
    text = StringIO()
    key.write_private_key(text)
    with subprocess.Popen(
        [str(_program()), USER, PASSWORD, str(public)], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout
            port, fingerprint = (server.stdout.readline().strip() for _ in range(2))
            yield Sftp(f"sftp://127.0.0.1:{port}", fingerprint, text.getvalue())
        finally:
            server.kill()


def _program() -> Path:
    names = ("main.go", "go.mod", "go.sum")
    digest = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in names)).hexdigest()

    def build(folder: Path) -> None:
        on_path("go")
        environment = {**os.environ, "GOFLAGS": "-trimpath", "CGO_ENABLED": "0"}
        command = ["go", "build", "-o", str(folder / "sftp_server"), "."]
        subprocess.run(command, check=True, env=environment, cwd=SOURCE)

    return kept(f"sftp-server-{digest[:16]}", build) / "sftp_server"

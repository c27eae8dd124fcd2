"""A throw-away Kubernetes control plane: etcd, API server, controllers and scheduler, in one
process, on loopback.

It has no nodes: see `kubelet.py` beside this for one that runs pods as processes. Does not belong
here: what is done with a cluster.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.cluster.binaries import binaries


class ControlPlane:
    """One cluster without nodes. `stop`, or `kill`, and `start` again keep what is in it, its
    address and tokens.

    It ends with this process, too.
    """

    def __init__(self, flags: Sequence[str] = ()) -> None:
        """`flags` of the plane: see `plane/main.go`."""
        self.home = Path(tempfile.mkdtemp(prefix="k8s-", dir="/tmp"))  # short: sockets lie in it
        self.url = ""
        self._flags = tuple(flags)
        self._server: subprocess.Popen[str] | None = None

    @property
    def kubeconfig(self) -> Path:
        """Of somebody who may do everything."""
        return self.home / "kubeconfig"

    @property
    def log(self) -> Path:
        return self.home / "log"

    def start(self) -> ControlPlane:
        """Returns once the API server answers and is healthy."""
        command = [
            str(binaries() / "headgate-test-plane"),
            "-hold",
            "-dir",
            str(self.home),
            *self._flags,
        ]
        if self.url:
            command += ["-port", str(urlsplit(self.url).port)]
        with self.log.open("ab") as log:
            self._server = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._server.stdout is not None
        word, _, url = self._server.stdout.readline().strip().partition(" ")
        if word != "ready":
            self._server.wait()
            raise RuntimeError(
                "Kubernetes did not start: " + self.log.read_text(errors="replace")[-2000:]
            )
        self.url = url
        return self

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """As a crash would."""
        self._end(signal.SIGKILL)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints; CalledProcessError if it fails."""
        command = [str(binaries() / "kubectl"), "--kubeconfig", str(self.kubeconfig), *arguments]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, input=stdin
        ).stdout

    def _end(self, number: signal.Signals) -> None:
        if self._server is not None:
            self._server.send_signal(number)
            self._server.wait()
            for pipe in (self._server.stdin, self._server.stdout):
                if pipe is not None:
                    pipe.close()
            self._server = None

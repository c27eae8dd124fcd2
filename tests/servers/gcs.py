"""A throw-away Google Cloud Storage on free loopback ports: fake-gcs-server, built once from Go modules and kept in the
user's cache, behind a front of ours. Needs Go for the first time, openssl, and Java's keytool.

Java's clients know no other address than Google's: their JVM takes the front for a proxy and trusts its certificate.
Does not belong here: what the front adds (gcs_front).
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import pytest
from obstore.store import GCSStore, ObjectStore

from dataplane.jars import cache_folder
from tests.servers.gcs_front import Front
from tests.servers.ports import free_port

VERSION = "v1.56.1"
MODULE = f"github.com/fsouza/fake-gcs-server@{VERSION}"
HOST = "storage.googleapis.com"
KEY_ID = "a-key-of-tests"
LOOK_AGAIN_S = 0.02


def binary() -> Path:
    """The server, built if it is not there yet; minutes on two cores."""
    program = cache_folder() / f"fake-gcs-server-{VERSION}" / "fake-gcs-server"
    if not program.exists():
        _build(program)
    return program


def _build(program: Path) -> None:
    if shutil.which("go") is None:
        raise RuntimeError("no Go here to build a GCS server with: apt-get install golang, or put `go` on PATH")
    program.parent.mkdir(parents=True, exist_ok=True)
    with open(program.with_suffix(".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # others wait, and find it done
        if not program.exists():
            with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
                environment = {**os.environ, "GOBIN": scratch, "GOFLAGS": "-trimpath"}
                subprocess.run(["go", "install", MODULE], check=True, env=environment, cwd=scratch)
                os.replace(Path(scratch) / "fake-gcs-server", program)


class Gcs:
    """One server with a bucket named `lake`."""

    lake = "gs://lake"
    nowhere = "gs://nowhere"
    secrets = ()  # the variable names a file
    refused = "AuthenticationRequired"

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="gcs-"))
        self.port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        self._front: Front | None = None
        if shutil.which("openssl") is None:
            raise RuntimeError("no openssl here to make a certificate with: apt-get install openssl")
        subject = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
        self._run(
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", *subject, "-keyout", "key", "-out", "cert"
        )
        store = ["-keystore", "trusted", "-storepass", "changeit", "-noprompt"]
        self._run("keytool", "-importcert", "-alias", "front", "-file", "cert", *store)
        self.secret = (self.home / "key").read_text().splitlines()[3]  # a line of the key

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, cwd=self.home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def url(self) -> str:
        assert self._front is not None
        return f"http://127.0.0.1:{self._front.port}"

    def environment(self) -> dict[str, str]:
        """What a client finds this server by; the options are those of a JVM."""
        trust = f"-Djavax.net.ssl.trustStore={self.home / 'trusted'} -Djavax.net.ssl.trustStorePassword=changeit"
        proxy = f"-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort={self.url.rpartition(':')[2]}"
        return {
            "GOOGLE_APPLICATION_CREDENTIALS": str(self.home / "credentials.json"),
            "GOOGLE_BASE_URL": self.url,
            "HEADGATE_JVM": f"{os.environ.get('HEADGATE_JVM', '')} {proxy} {trust}".strip(),
        }

    def forget(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the environment hold credentials that nobody was given."""
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(self._credentials("other.json", "another-key")))

    def _credentials(self, name: str, key_id: str) -> Path:
        """As Google gives them for a service account."""
        given = {
            "type": "service_account",
            "project_id": "tests",
            "private_key_id": key_id,
            "private_key": (self.home / "key").read_text(),
            "client_email": "tests@tests.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": f"{self.url}/token",
        }
        (self.home / name).write_text(json.dumps(given))
        return self.home / name

    def objects(self, place: str) -> ObjectStore:
        """Objects below a URI, for whoever owns the server."""
        return GCSStore.from_url(
            place,
            base_url=self.url,
            application_credentials=str(self.home / "credentials.json"),
            client_options={"allow_http": True},
        )

    def start(self) -> Gcs:
        address = f"127.0.0.1:{self.port}"
        command = [
            str(binary()),
            "-backend",
            "memory",
            "-scheme",
            "http",
            "-host",
            "127.0.0.1",
            "-port",
            str(self.port),
        ]
        command += ["-public-host", address, "-external-url", f"https://{HOST}", "-log-level", "warn"]
        with (self.home / "log").open("ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log)
        while not self._answers():
            if self._server.poll() is not None:
                raise RuntimeError(f"fake-gcs-server did not start: {(self.home / 'log').read_text()[-2000:]}")
            threading.Event().wait(LOOK_AGAIN_S)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.home / "cert", self.home / "key")
        self._front = Front(self.port, KEY_ID, tls)
        self._credentials("credentials.json", KEY_ID)
        self._make_bucket()
        return self

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 0.2):
            return True
        return False

    def _make_bucket(self) -> None:
        self._post("/storage/v1/b?project=tests", b'{"name": "lake"}')

    def make_folder(self, place: str) -> None:
        """What Hadoop puts to stand for a folder."""
        name = quote(place.removeprefix(f"{self.lake}/") + "/", safe="")
        self._post(f"/upload/storage/v1/b/lake/o?uploadType=media&name={name}", b"")

    def _post(self, path: str, body: bytes) -> None:
        line = HTTPConnection("127.0.0.1", self.port)
        line.request("POST", path, body, {"Content-Type": "application/json"})
        status = line.getresponse().status
        line.close()
        assert status == 200, status

    def remove(self) -> None:
        if self._front is not None:
            self._front.close()
        if self._server is not None:
            self._server.kill()
            self._server.wait()
        shutil.rmtree(self.home, ignore_errors=True)

"""A throw-away Google Cloud Storage on free loopback ports: fake-gcs-server, built once from Go
modules and kept in the user's cache, behind a front of ours. Needs Go for the first time, openssl,
and Java's keytool.

Java's clients know no other address than Google's: their JVM takes the front for a proxy and trusts
its certificate. Does not belong here: what the front adds (gcs_front).
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import tempfile
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

import pytest
from obstore.store import GCSStore, ObjectStore

from tests.servers.gcs_front import Front
from tests.servers.ports import free_port
from tests.servers.programs import by_go, wait_until_it_answers
from tests.tools import on_path

MODULE = "github.com/fsouza/fake-gcs-server@v1.56.1"
HOST = "storage.googleapis.com"
KEY_ID = "a-key-of-tests"


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
        on_path("openssl", "keytool")
        subject = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
        self._run(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            *subject,
            "-keyout",
            "key",
            "-out",
            "cert",
        )
        store = ["-keystore", "trusted", "-storepass", "changeit", "-noprompt"]
        self._run("keytool", "-importcert", "-alias", "front", "-file", "cert", *store)
        self.secret = (self.home / "key").read_text().splitlines()[3]  # a line of the key

    def _run(self, *command: str) -> None:
        subprocess.run(
            command, check=True, cwd=self.home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

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
        monkeypatch.setenv(
            "GOOGLE_APPLICATION_CREDENTIALS", str(self._credentials("other.json", "another-key"))
        )

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
            str(by_go(MODULE)),
            "-backend",
            "memory",
            "-scheme",
            "http",
            "-host",
            "127.0.0.1",
            "-port",
            str(self.port),
        ]
        command += [
            "-public-host",
            address,
            "-external-url",
            f"https://{HOST}",
            "-log-level",
            "warn",
        ]
        with (self.home / "log").open("ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until_it_answers(self._server, self.port, self.home / "log")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.home / "cert", self.home / "key")
        self._front = Front(self.port, KEY_ID, tls)
        self._credentials("credentials.json", KEY_ID)
        self._make_bucket()
        return self

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

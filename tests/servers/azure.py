"""A throw-away Azure Storage on a free loopback port: Azurite's blobs, installed once from npm into
the user's cache.

It checks signatures and honours conditional puts; it has no hierarchical namespaces. Needs Node and
npm. Does not belong here: faults (faulty).
"""

from __future__ import annotations

import base64
import hmac
import os
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path

import obstore
import pytest
from obstore.store import AzureStore, ObjectStore

from tests.servers.ports import free_port
from tests.servers.programs import kept, wait_until_it_answers
from tests.tools import on_path

VERSION = "3.37.0"
ACCOUNT = "shop"
KEY = base64.b64encode(b"a key of tests, 4711").decode()


def program() -> Path:
    """The server's script."""

    def install(folder: Path) -> None:
        on_path("npm", "node")
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", f"azurite@{VERSION}"]
        subprocess.run([*command, "--prefix", str(folder)], check=True, stdout=subprocess.DEVNULL)

    return (
        kept(f"azurite-{VERSION}", install)
        / "node_modules"
        / "azurite"
        / "dist"
        / "src"
        / "blob"
        / "main.js"
    )


class Azure:
    """One server with a container named `lake`. `stop` and `start` again keep data and port;
    `remove` ends it."""

    lake = f"abfss://lake@{ACCOUNT}.dfs.core.windows.net"
    nowhere = f"abfss://nowhere@{ACCOUNT}.dfs.core.windows.net"
    secret = KEY
    secrets = ("AZURE_STORAGE_ACCOUNT_KEY",)  # the variables that hold it
    refused = "AuthorizationFailure"

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="azure-"))
        self.port = free_port()
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self, url: str | None = None) -> dict[str, str]:
        """What a client finds this server by, or by way of `url`."""
        return {
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": url or self.url,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }

    def forget(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the environment hold credentials that nobody was given."""
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"another key").decode())

    def objects(self, place: str) -> ObjectStore:
        """Objects below a URI, for whoever owns the server."""
        return AzureStore.from_url(
            place,
            endpoint=f"{self.url}/{ACCOUNT}",
            account_key=KEY,
            client_options={"allow_http": True},
        )

    def make_folder(self, place: str) -> None:
        """What Hadoop puts to stand for a folder."""
        above, _, name = place.rpartition("/")
        obstore.put(self.objects(above), name, b"", use_multipart=False)

    def start(self) -> Azure:
        on_path("node")
        command = [
            "node",
            str(program()),
            "--blobHost",
            "127.0.0.1",
            "--blobPort",
            str(self.port),
            "--silent",
        ]
        command += [
            "--location",
            str(self.home / "data"),
            "--skipApiVersionCheck",
            "--disableTelemetry",
        ]
        with (self.home / "log").open("ab") as log:
            environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
            self._server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        wait_until_it_answers(self._server, self.port, self.home / "log")
        self._make_container()
        return self

    def _make_container(self) -> None:
        """https://learn.microsoft.com/rest/api/storageservices/create-container, signed with the
        account's key."""
        date, version = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"), "2021-08-06"
        # The account twice, as it is in the paths of an emulator
        place = f"/{ACCOUNT}/{ACCOUNT}/lake"
        signed = "\n".join(
            [
                "PUT",
                *[""] * 11,
                f"x-ms-date:{date}",
                f"x-ms-version:{version}",
                place,
                "restype:container",
            ]
        )
        signature = base64.b64encode(
            hmac.digest(base64.b64decode(KEY), signed.encode(), "sha256")
        ).decode()
        headers = {
            "x-ms-date": date,
            "x-ms-version": version,
            "Authorization": f"SharedKey {ACCOUNT}:{signature}",
        }
        line = HTTPConnection("127.0.0.1", self.port)
        line.request("PUT", f"/{ACCOUNT}/lake?restype=container", headers=headers)
        status = line.getresponse().status
        line.close()
        assert status in (201, 409), status  # made, or there from before

    def stop(self) -> None:
        """As a crash would."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

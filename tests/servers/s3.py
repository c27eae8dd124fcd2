"""A throw-away S3 server on a free loopback port: versitygw, built once from Go modules and kept in
the user's cache.

It checks signatures and honours conditional puts. Needs Go for the first time. Does not belong
here: faults (faulty).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from hashlib import file_digest, md5
from pathlib import Path

from obstore.store import ObjectStore, from_url

from tests.servers.ports import free_port
from tests.servers.programs import by_go, wait_until_it_answers

MODULE = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testkey",
    "AWS_SECRET_ACCESS_KEY": "testsecret-4711",
    "AWS_REGION": "us-east-1",
}


def binary() -> Path:
    return by_go(MODULE)


class S3:
    """One server with a bucket named `lake`. `stop` and `start` again keep data and port; `remove`
    ends it for good. `events`: the servers and topic of Kafka that get its events."""

    def __init__(self, events: tuple[str, str] | None = None) -> None:
        self.events = events
        self.home = Path(tempfile.mkdtemp(prefix="s3-"))
        self.port = free_port()
        self._server: subprocess.Popen[bytes] | None = None
        (self.home / "data" / "lake").mkdir(parents=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self, url: str | None = None) -> dict[str, str]:
        """What a client finds this server by, or by way of `url`."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": url or self.url}

    def bucket(self, name: str) -> ObjectStore:
        """A bucket of this name, made if it is not there; its objects, for whoever owns the
        server."""
        (self.home / "data" / name).mkdir(exist_ok=True)
        return from_url(
            f"s3://{name}",
            config={"endpoint": self.url, "region": CREDENTIALS["AWS_REGION"]},
            client_options={"allow_http": True},
            access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    def lay(self, name: str, body: bytes) -> None:
        """An object of the bucket `lake` as if it had been put, at the cost of writing a file."""
        path = self.home / "data" / "lake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        self.tag(path)

    def tag(self, path: Path) -> None:
        """Give a file among the server's data the etag that it would have got."""
        with path.open("rb") as file:
            etag = file_digest(file, lambda: md5(usedforsecurity=False)).hexdigest()
        os.setxattr(path, "user.etag", f'"{etag}"'.encode())

    def start(self) -> S3:
        owner = {
            "ROOT_ACCESS_KEY": CREDENTIALS["AWS_ACCESS_KEY_ID"],
            "ROOT_SECRET_KEY": CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        }
        command = [
            str(binary()),
            "-p",
            f"127.0.0.1:{self.port}",
            "--quiet",
            *self._to_kafka(),
            "posix",
            str(self.home / "data"),
        ]
        with (self.home / "log").open("ab") as log:
            self._server = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **owner}
            )
        wait_until_it_answers(self._server, self.port, self.home / "log")
        return self

    def _to_kafka(self) -> list[str]:
        if self.events is None:
            return []
        servers, topic = self.events
        return ["--event-kafka-url", servers, "--event-kafka-topic", topic]

    def stop(self) -> None:
        """As a crash would."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

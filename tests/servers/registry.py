"""A throw-away schema registry on a free loopback port: Apicurio's, which answers as Confluent's
does; in memory.

In front of it is a door that asks for user and password, as people put a proxy there. Does not
belong here: clients.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import httpx2

from dataplane.spark.cache_folder import cache_folder
from dataplane.spark.java import provide_java
from tests.servers.ports import free_ports

VERSION = "2.6.13.Final"
GROUP, ARTIFACT = "io.apicurio", "apicurio-registry-app"
RELEASE = f"{GROUP}:{ARTIFACT}:{VERSION}:tar.gz:all"
IVY = f"""\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="headgate" module="tests" revision="1"/>
  <dependencies>
    <dependency org="{GROUP}" name="{ARTIFACT}" rev="{VERSION}" transitive="false">
      <artifact name="{ARTIFACT}" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
RESOLVE = """\
import sys
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
jvm = launch_gateway(SparkConf()).jvm
option, spark = jvm.scala.Option, jvm.org.apache.spark.util.MavenUtils
settings = spark.buildIvySettings(option.empty(), option.apply(sys.argv[2]), False, jvm.System.err)
jvm.org.apache.ivy.Ivy.newInstance(settings).resolve(jvm.java.io.File(sys.argv[1]))
"""
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack"
JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
READY = "Listening on:"
API = "/apis/ccompat/v7"
USER, PASSWORD = "reader", 'p "q" & more'


def fetched() -> Path:
    """The folder of the program, in the user's cache."""
    cache = cache_folder()
    folder = cache / RELEASE.replace(":", "-")
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache) as scratch:
            (_by_maven if shutil.which("mvn") else _by_spark)(Path(scratch))
            try:
                Path(scratch, "program").rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process was faster
                    raise
    return folder


def _by_maven(scratch: Path) -> None:
    told = [f"-Dartifact={RELEASE}", f"-DoutputDirectory={scratch}/program"]
    subprocess.run(["mvn", "-B", "-ntp", "-q", GOAL, *told], check=True, cwd=scratch)


def _by_spark(scratch: Path) -> None:
    """By the resolver that Spark comes with, which has a wish with a classifier from a file
    only."""
    provide_java()
    scratch.joinpath("ivy.xml").write_text(IVY)
    told = [str(scratch / "ivy.xml"), str(scratch / "ivy")]
    subprocess.run([sys.executable, "-c", RESOLVE, *told], check=True, capture_output=True)
    [found] = scratch.rglob("*.tar.gz")
    with tarfile.open(found) as archive:
        archive.extractall(scratch / "program", filter="data")


class SchemaRegistry:
    """`url` is open to everybody, `url_with_login` to those who say that they are `USER`."""

    def __init__(self) -> None:
        self.port, self.login_port = free_ports(2)
        self._server: subprocess.Popen[str] | None = None
        self._door: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{API}"

    @property
    def url_with_login(self) -> str:
        return f"http://127.0.0.1:{self.login_port}{API}"

    def start(self) -> SchemaRegistry:
        place = {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(self.port)}
        quiet = {"QUARKUS_HTTP_ACCESS_LOG_ENABLED": "false"}
        program = fetched() / f"apicurio-registry-app-{VERSION}-runner.jar"
        self._server = subprocess.Popen(
            [provide_java(), *JVM, "-jar", str(program)],
            env={**os.environ, **place, **quiet},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._server.stdout
        lines = []
        for line in self._server.stdout:
            lines.append(line)
            if READY in line:
                # What else it says
                self._rest = threading.Thread(target=self._server.stdout.read, daemon=True)
                self._rest.start()
                self._open()
                return self
        raise RuntimeError(f"the schema registry did not start: {''.join(lines)[-3000:]}")

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nobody answers those who would log in."""
        self._shut()
        try:
            yield
        finally:
            self._open()

    def _open(self) -> None:
        self._door = ThreadingHTTPServer(("127.0.0.1", self.login_port), _door(self))
        threading.Thread(target=self._door.serve_forever, daemon=True).start()

    def _shut(self) -> None:
        if self._door is not None:
            self._door.shutdown()
            self._door.server_close()
            self._door = None

    def remove(self) -> None:
        self._shut()
        if self._server is not None:
            with self._server:
                self._server.kill()
                self._rest.join()

    def register(self, subject: str, schema: str, **more: Any) -> int:
        """The id of a schema, which is a further one of the subject."""
        body = {"schema": schema, "schemaType": "AVRO", **more}
        answer = httpx2.post(
            f"{self.url}/subjects/{quote(subject, safe='')}/versions", json=body, timeout=60.0
        )
        answer.raise_for_status()
        return int(answer.json()["id"])


def _door(registry: SchemaRegistry) -> type[BaseHTTPRequestHandler]:
    login = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != login:
                self._answer(401, b"")
                return
            answer = httpx2.get(f"http://127.0.0.1:{registry.port}{self.path}", timeout=60.0)
            self._answer(answer.status_code, answer.content)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: it would be in the output of tests."""

    return Door

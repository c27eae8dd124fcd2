"""A throw-away HDFS on free loopback ports: a NameNode and a DataNode, from jars of Maven's and of
PySpark's.

Everybody is who he says he is, as in every HDFS without Kerberos; who started the NameNode may do
everything. Does not belong here: clients.
"""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark

from dataplane.spark.jars import fetched
from dataplane.spark.java import provide_java
from tests.servers.ports import free_port

POM = Path(__file__).with_name("hdfs.xml")
OF_PYSPARK = (
    "hadoop-client-api-*",
    "hadoop-client-runtime-*",
    "slf4j-api-*",
    "log4j-*",
    "jcl-over-slf4j-*",
    "j*.servlet-api-*",
)
JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
NAME_NODE, DATA_NODE = (
    f"org.apache.hadoop.hdfs.server.{n}" for n in ("namenode.NameNode", "datanode.DataNode")
)
READY = {NAME_NODE: "NameNode RPC up at", DATA_NODE: "successfully registered with NN"}
LOGGING = """\
<Configuration><Appenders><Console name="out"><PatternLayout pattern="%m%n%throwable"/></Console></Appenders>
<Loggers><Root level="info"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""
PAGES = ("hdfs", "datanode", "static")  # folders that its own web servers insist upon


class Hdfs:
    """`stop` and `start` again keep files and port; `remove` ends it for good."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="hdfs-"))
        self.port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        for folder in PAGES:
            (self.home / "conf" / "webapps" / folder).mkdir(parents=True)
        (self.home / "log4j2.xml").write_text(LOGGING)
        conf = self.home / "conf"
        settings(
            conf / "core-site.xml",
            {"fs.defaultFS": self.url, "hadoop.tmp.dir": str(self.home / "tmp")},
        )
        nowhere = {
            f"dfs.datanode.{name}": "127.0.0.1:0"
            for name in ("address", "http.address", "ipc.address")
        }
        places = {f"dfs.{of}node.{of}.dir": (self.home / of).as_uri() for of in ("name", "data")}
        places["dfs.namenode.http-address"] = "127.0.0.1:0"
        few = {"dfs.replication": "1", "dfs.namenode.safemode.extension": "0"}
        settings(conf / "hdfs-site.xml", nowhere | places | few)
        self._run(NAME_NODE, "-format", "-nonInteractive")

    @property
    def url(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """What tells a client whose files are his."""
        return {"HADOOP_USER_NAME": getpass.getuser()}

    def start(self) -> Hdfs:
        for each in (NAME_NODE, DATA_NODE):
            self._processes.append(self._started(each))
        self._run("org.apache.hadoop.hdfs.tools.DFSAdmin", "-safemode", "wait")
        return self

    def stop(self) -> None:
        while self._processes:
            with self._processes.pop() as process:
                process.kill()

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def _started(self, daemon: str) -> subprocess.Popen[bytes]:
        read, write = os.pipe()
        process = subprocess.Popen(self._command(daemon), stdout=write, stderr=subprocess.STDOUT)
        os.close(write)
        said = []
        with os.fdopen(read, errors="replace") as lines:
            for line in lines:
                said.append(line)
                if READY[daemon] in line:
                    return process
        raise RuntimeError(f"{daemon} did not start: {''.join(said)[-3000:]}")

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(self._command(*arguments), capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{arguments} failed: {(done.stdout + done.stderr)[-3000:]}")

    def _command(self, *arguments: str) -> list[str]:
        jars = Path(os.fspath(pyspark.__path__[0]), "jars")
        found = [
            self.home / "conf",
            *fetched(POM).glob("*.jar"),
            *(j for p in OF_PYSPARK for j in jars.glob(f"{p}.jar")),
        ]
        own = (
            f"-Dlog4j2.configurationFile={self.home / 'log4j2.xml'}",
            f"-Djava.io.tmpdir={self.home}",
        )
        return [provide_java(), *JVM, *own, "-cp", os.pathsep.join(map(str, found)), *arguments]


def settings(file: Path, values: Mapping[str, str]) -> None:
    """As Hadoop reads them."""
    rows = (f"<property><name>{k}</name><value>{v}</value></property>" for k, v in values.items())
    file.write_text(f"<configuration>{''.join(rows)}</configuration>")

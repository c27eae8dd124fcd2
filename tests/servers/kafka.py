"""A throw-away Kafka on a free port, of loopback if nothing else is said: one node that is broker
and controller, from jars of Maven's.

Does not belong here: clients.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from base64 import urlsafe_b64encode
from pathlib import Path
from uuid import uuid4

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from dataplane.spark.jars import fetched
from dataplane.spark.java import provide_java
from tests.servers.ports import free_ports

POM = Path(__file__).with_name("kafka.xml")
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
READY = "Kafka Server started"
SETTINGS = {  # of one node: each internal topic has one replica, and few partitions
    "process.roles": "broker,controller",
    "node.id": "1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.cleaner.enable": "false",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
}
USER, PASSWORD = "app", 'hunter2 "quoted" \\ & more'
LOGGING = """\
<Configuration><Appenders><Console name="out"><PatternLayout pattern="%m%n%throwable"/></Console></Appenders>
<Loggers><Root level="warn"><AppenderRef ref="out"/></Root><Logger name="kafka.server" level="info"/></Loggers>
</Configuration>
"""


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for this machine, which nobody but itself has signed, and its key."""
    made, key = folder / f"{name}.crt", folder / f"{name}.key"
    who = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    how = [
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "30",
        "-keyout",
        str(key),
        "-out",
        str(made),
    ]
    subprocess.run(["openssl", "req", *how, *who], check=True, capture_output=True)
    return made, key


class Kafka:
    """`stop` and `start` again keep data and port; `remove` ends it for good."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.home, self.host = Path(tempfile.mkdtemp(prefix="kafka-")), host
        self.port, self.login_port, controller = free_ports(3)
        open_to = f"PLAINTEXT://{host}:{self.port},LOGIN://{host}:{self.login_port}"
        listeners = f"{open_to},CONTROLLER://127.0.0.1:{controller}"
        password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        login = f'{PLAIN} required user_{USER}="{password}";'
        self.certificate, key = certificate(self.home, "server")
        (self.home / "server.pem").write_text(key.read_text() + self.certificate.read_text())
        own = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "listener.name.login.plain.sasl.jaas.config": login.replace("\\", "\\\\"),
            "listener.name.login.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            "listener.name.login.ssl.keystore.type": "PEM",
            "listener.name.login.ssl.keystore.location": str(self.home / "server.pem"),
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "log.dirs": str(self.home / "data"),
        }
        self._settings = self.home / "server.properties"
        self._settings.write_text(
            "".join(f"{name}={value}\n" for name, value in {**SETTINGS, **own}.items())
        )
        (self.home / "log4j2.xml").write_text(LOGGING)
        self._log = self.home / "out.log"
        self._server: subprocess.Popen[bytes] | None = None
        cluster = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        format_storage = (
            "kafka.tools.StorageTool",
            "format",
            "--standalone",
            f"--cluster-id={cluster}",
            "-c",
            self._settings,
        )
        subprocess.run(self._java(*format_storage), check=True, stdout=subprocess.DEVNULL)

    @property
    def servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def servers_with_login(self) -> str:
        """For those who say that they are `USER`, and trust the server's `certificate`."""
        return f"{self.host}:{self.login_port}"

    def start(self) -> Kafka:
        read, write = os.pipe()
        self._server = subprocess.Popen(
            self._java("kafka.Kafka", self._settings), stdout=write, stderr=subprocess.STDOUT
        )
        os.close(write)
        with os.fdopen(read, errors="replace") as lines, self._log.open("a") as log:
            for line in lines:
                log.write(line)
                if READY in line:
                    break
        if self._server.poll() is not None:
            raise RuntimeError(f"Kafka did not start: {self._log.read_text()[-3000:]}")
        self._let_in()
        return self

    def login(self, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """Options with which a component logs in, all but the password."""
        how = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.username": USER}
        return {**how, "ssl.ca.location": str(self.certificate)}

    def _let_in(self) -> None:
        """The user of SCRAM: what Kafka keeps of it is no setting."""
        admin = AdminClient({"bootstrap.servers": self.servers})
        how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(USER, how, PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([user]).values():
            done.result()

    def stop(self) -> None:
        """As a crash would: at once."""
        if self._server is not None:
            self._server.kill()
            self._server.wait()
            self._server = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)

    def _java(self, main: str, *arguments: object) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.home / 'log4j2.xml'}"
        return [
            provide_java(),
            *JVM,
            logging,
            "-cp",
            f"{fetched(POM)}/*",
            main,
            *map(str, arguments),
        ]

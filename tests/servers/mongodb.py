"""A throw-away server of MongoDB's protocol on a free loopback port: mongo-java-server, in memory,
from jars of Maven's, in a JVM of its own.

Does not belong here: what is read from it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway

from dataplane.spark.jars import classpath
from dataplane.spark.java import provide_java

POM = Path(__file__).with_name("mongodb.xml")
JVM = ["-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
DATABASE = "shop"


class MongoServer:
    """`remove` ends it. `insert` adds documents as a client does."""

    def __init__(self) -> None:
        [py4j_jar] = Path(pyspark.__file__).parent.glob("jars/py4j-*.jar")
        jars = classpath(POM, {k: v for k, v in os.environ.items() if k != "HEADGATE_JARS"})
        path = f"{py4j_jar}{os.pathsep}{jars}"
        gateway = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
        self._process = subprocess.Popen(
            [provide_java(), *JVM, "-cp", path, *gateway],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout
        port = int(self._process.stdout.readline())
        token = self._process.stdout.readline().decode().strip()
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=token)
        )
        classes = self._gateway.jvm.de.bwaldvogel.mongo
        self.port = classes.MongoServer(classes.backend.memory.MemoryBackend()).bind().getPort()
        self._client = self._gateway.jvm.com.mongodb.client.MongoClients.create(self.uri)

    @property
    def uri(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}"

    def insert(self, collection: str, *documents: dict[str, Any]) -> None:
        target = self._client.getDatabase(DATABASE).getCollection(collection)
        for document in documents:
            target.insertOne(self._gateway.jvm.org.bson.Document.parse(json.dumps(document)))

    def remove(self) -> None:
        self._gateway.close()
        with self._process:
            self._process.kill()

"""Spark with its Connect server inside, and the session of the one client that it is for, made
before the client comes.

A session's views are its own, and a client joins the session that its address names.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from dataplane.contract.spark_sessions import ServerOrder
from dataplane.runtime.spark_query.session_views import FOR_FEW, add_views
from dataplane.spark.spark_session import WHOLE, is_alive, start
from dataplane.spark.warmup import spark_conf
from dataplane.storage.lake import open_lake

SERVICE = "SparkConnectService$"
LOOK_S = 1.0  # between looks at whether Spark lives
ANSWERS_S = 10  # for calls that run when it ends
PROBE_MS = 30_000  # between Spark's looks at sessions that are idle


class ConnectServer:
    """It serves once it is made. Raises what Spark raises where it does not start, and TaskFailure
    for a file of a view that is not there."""

    def __init__(self, order: ServerOrder) -> None:
        self._spark = start(Path(order["scratch"]), {**spark_conf(), **_settings(order)})
        jvm = self._spark._jvm
        assert jvm is not None
        service = getattr(getattr(jvm.org.apache.spark.sql.connect.service, SERVICE), "MODULE$")
        self._service = service
        self._seconds = jvm.java.util.concurrent.TimeUnit.SECONDS
        self.port: int = service.localPort()
        joined = service.getOrCreateIsolatedSession(
            order["user"], order["session"], jvm.scala.Option.apply(None)
        )
        session = SparkSession(self._spark.sparkContext, joined.session())
        for name, value in {**WHOLE, **FOR_FEW}.items():
            session.conf.set(name, value)
        add_views(session, open_lake(order["lake"]), order["tables"])

    def wait(self, seconds: float) -> None:
        """Until the time is over, or Spark is, or the session was stopped or idle: no client can
        join that again."""
        deadline, never = time.monotonic() + seconds, threading.Event()
        while (left := deadline - time.monotonic()) > 0 and self._is_open():
            never.wait(min(left, LOOK_S))

    def close(self) -> None:
        """Answer the calls that run. A session is closed before its client hears so, and a client
        without an answer repeats its call for ten minutes."""
        if is_alive(self._spark):
            self._service.server().shutdown().awaitTermination(ANSWERS_S, self._seconds)

    def _is_open(self) -> bool:
        if not is_alive(self._spark):
            return False
        with suppress(Exception):  # of a JVM that has ended meanwhile
            return not self._service.sessionManager().listActiveSessions().isEmpty()
        return False


def _settings(order: ServerOrder) -> dict[str, str]:
    idle_ms = max(1, int(order["idle_s"] * 1000))
    return {
        "spark.master": "local[2]",
        "spark.driver.memory": f"{order['memory_bytes'] >> 20}m",
        "spark.log.level": "ERROR",
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",  # it would listen on all of them
        "spark.connect.grpc.binding.port": "0",
        # closed, which `wait` sees
        "spark.connect.session.manager.defaultSessionTimeout": f"{idle_ms}ms",
        "spark.connect.session.manager.maintenanceInterval": f"{min(idle_ms, PROBE_MS)}ms",
    }

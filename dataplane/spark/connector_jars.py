"""Jars of sources that PySpark lacks (PostgreSQL, Kafka, Delta), for a Spark that runs already.

They come with the first task that needs them: Spark starts without them, and goes on with them.
"""

from __future__ import annotations

import os
import threading

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from dataplane.spark.jars import CONNECTORS, DELTA, classpath

EXTENSIONS = "spark.sql.extensions"
NEEDED = {
    "delta": DELTA[EXTENSIONS],
    "kafka": "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "postgresql": "org.postgresql.Driver",
}
_PROVIDING = threading.Lock()


def provide(spark: SparkSession, connector: str) -> None:
    """Let new sessions use a connector, or a database; nothing to do for one that needs no jars.

    Jars that an operator has put on the class path are used. NoJars where they cannot be fetched;
    where the folder of HEADGATE_JARS lacks them, the connector itself raises.
    """
    needed = NEEDED.get(connector)
    if needed is None:
        return
    with _PROVIDING:
        if not _has(spark, needed):
            _add(spark, classpath(CONNECTORS).split(os.pathsep))
        if connector == "delta" and _has(spark, needed):
            _extend(spark)


def _has(spark: SparkSession, name: str) -> bool:
    assert spark._jvm is not None
    resource = name.replace(".", "/") + ".class"
    return _loader(spark).getResource(resource) is not None


def _loader(spark: SparkSession) -> JavaObject:
    """The class loader of `spark.jars`: all threads of this JVM see jars added to it, and so do its
    executors."""
    assert spark._jvm is not None
    return spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()


def _add(spark: SparkSession, jars: list[str]) -> None:
    assert spark._jvm is not None
    is_local = str(spark.sparkContext.master).startswith("local")
    for jar in jars:
        _loader(spark).addURL(spark._jvm.java.io.File(jar).toURI().toURL())
        if not is_local:
            spark.sparkContext._jsc.addJar(jar)  # for executors elsewhere


def _extend(spark: SparkSession) -> None:
    """Apply Delta's settings as Spark does at its start. Sessions read both when they are made."""
    jvm, gateway, root = spark._jvm, spark.sparkContext._gateway, spark._jsparkSession
    assert jvm is not None
    assert gateway is not None
    conf = root.sharedState().conf()
    if DELTA[EXTENSIONS] in conf.get(EXTENSIONS, ""):
        return
    nothing = gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0)
    extension = jvm.java.lang.Class.forName(DELTA[EXTENSIONS], True, _loader(spark))
    extension.getConstructor(nothing[0]).newInstance(nothing[1]).apply(root.extensions())
    for name, value in DELTA.items():
        conf.set(
            name,
            ",".join(filter(None, [conf.get(name, ""), value])) if name == EXTENSIONS else value,
        )

"""The stores that Spark reaches by a file system of Hadoop's that PySpark lacks: which jars and
settings each needs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dataplane.spark import azure, gcs, jars, s3a

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Way:
    """`of_lake` are properties of Hadoop's for a JVM whose lake is there, `of_source` those for a
    reader."""

    pom: Path
    file_system: str
    of_lake: Callable[[Mapping[str, str]], dict[str, str]]
    of_source: Callable[[Mapping[str, str]], dict[str, str]]


S3 = Way(jars.S3, s3a.FILE_SYSTEM, s3a.of_lake, s3a.place_of)
AZURE = Way(jars.AZURE, azure.SECURE, azure.settings, azure.settings)
GCS = Way(jars.GCS, gcs.FILE_SYSTEM, gcs.settings, gcs.settings)
WAYS = {"s3": S3, "s3a": S3, "abfs": AZURE, "abfss": AZURE, "gs": GCS}


def way_to(uri: str) -> Way | None:
    """None where Spark needs nothing."""
    return WAYS.get(uri.partition(":")[0])


def conf_for(lake: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings of Spark for a JVM that is still to start; none for a lake that needs none."""
    way = way_to(lake)
    if way is None:
        return {}
    class_path = jars.classpath(way.pom, environ)
    paths = {f"spark.{who}.extraClassPath": class_path for who in ("driver", "executor")}
    return paths | {_spark(name): value for name, value in way.of_lake(environ).items()}


def _spark(name: str) -> str:
    return name if name.startswith("spark.") else f"spark.hadoop.{name}"


def together(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str]:
    """Settings of which `given` wins; class paths are joined."""
    paths = {
        k: f"{theirs[k]}{os.pathsep}{ours[k]}"
        for k in ours.keys() & theirs.keys()
        if k.endswith("ClassPath")
    }
    return {**ours, **theirs, **paths}


def provide(spark: SparkSession, way: Way) -> None:
    """Let a Spark that runs already find a file system, if it does not. NoJars where the jars
    cannot be fetched."""
    with _PROVIDING:
        conf, jvm = spark.sparkContext._jsc.hadoopConfiguration(), spark._jvm
        assert jvm is not None
        if conf.getClassByNameOrNull(way.file_system) is not None:
            return
        paths, gateway = jars.classpath(way.pom).split(os.pathsep), spark.sparkContext._gateway
        assert gateway is not None
        urls = gateway.new_array(jvm.java.net.URL, len(paths))
        for number, jar in enumerate(paths):
            urls[number] = jvm.java.io.File(jar).toURI().toURL()
            spark.sparkContext._jsc.addJar(jar)  # for executors
        conf.setClassLoader(jvm.java.net.URLClassLoader(urls, conf.getClassLoader()))


_PROVIDING = threading.Lock()

"""How Spark finds its way to S3: jars and settings of Hadoop's S3A, from the usual environment variables.

Credentials of the lake are no settings: the JVM finds them where the rest of this process does, in the environment, so
that no event log or page of Spark shows them. Does not belong here: the lake itself; sources (read.remote).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dataplane import jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_SYSTEM = "org.apache.hadoop.fs.s3a.S3AFileSystem"

_HADOOP = "spark.hadoop.fs.s3a."
_FIXED = {
    "spark.hadoop.fs.s3.impl": FILE_SYSTEM,
    f"{_HADOOP}aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    # Files are uploaded where they belong and appear when the job commits: nothing is renamed, which S3 cannot.
    f"{_HADOOP}committer.name": "magic",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    # The other kind of stream, the default, gives up where an answer is cut; this one goes on from there.
    f"{_HADOOP}input.stream.type": "classic",
    # Paths are fresh, so nothing is looked for before it is made; and no empty objects stand for folders.
    f"{_HADOOP}performance.flags": "create,delete,mkdir",
}


def conf_for(lake: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings for a JVM that is still to start; none for a lake that is not on S3."""
    if not lake.startswith(("s3:", "s3a:")):
        return {}
    found = jars.classpath(jars.S3, environ)
    paths = {f"spark.{who}.extraClassPath": found for who in ("driver", "executor")}
    return {**paths, **_FIXED, **_place(environ)}


def place_of(environ: Mapping[str, str]) -> dict[str, str]:
    """As in `conf_for`, for a reader instead of a JVM: where the store is, and how it is read."""
    names = ("aws.credentials.provider", "input.stream.type")
    fixed = {f"{_HADOOP}{name}": _FIXED[f"{_HADOOP}{name}"] for name in names}
    return {name.removeprefix("spark.hadoop."): value for name, value in {**fixed, **_place(environ)}.items()}


def provide(spark: SparkSession) -> None:
    """Let a Spark that runs already find S3A, if it does not. NoJars where the jars cannot be fetched."""
    with _PROVIDING:
        conf, jvm = spark.sparkContext._jsc.hadoopConfiguration(), spark._jvm
        assert jvm is not None
        if conf.getClassByNameOrNull(FILE_SYSTEM) is not None:
            return
        found, gateway = jars.classpath(jars.S3).split(os.pathsep), spark.sparkContext._gateway
        assert gateway is not None
        urls = gateway.new_array(jvm.java.net.URL, len(found))
        for number, jar in enumerate(found):
            urls[number] = jvm.java.io.File(jar).toURI().toURL()
            spark.sparkContext._jsc.addJar(jar)  # for executors
        conf.setClassLoader(jvm.java.net.URLClassLoader(urls, conf.getClassLoader()))


_PROVIDING = threading.Lock()


def together(ours: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Settings of which `given` wins; class paths are joined."""
    paths = {k: f"{given[k]}{os.pathsep}{ours[k]}" for k in ours.keys() & given.keys() if k.endswith("ClassPath")}
    return {**ours, **given, **paths}


def _place(environ: Mapping[str, str]) -> dict[str, str]:
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    given = {f"{_HADOOP}endpoint.region": region} if region else {}
    endpoint = endpoint_of(environ)
    if not endpoint:
        return given
    return given | {
        f"{_HADOOP}endpoint": endpoint,
        f"{_HADOOP}path.style.access": "true",
        f"{_HADOOP}connection.ssl.enabled": str(endpoint.startswith("https:")).lower(),
    }


def endpoint_of(environ: Mapping[str, str]) -> str:
    """Where another server than the provider's own is; empty for that one."""
    return environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""

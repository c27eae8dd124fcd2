"""How Spark finds its way to a lake on S3: jars and settings of Hadoop's S3A, from the usual environment variables.

Credentials are no settings: the JVM finds them where the rest of this process does, in the environment, so that no
event log or page of Spark shows them. Does not belong here: the lake itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from dataplane import jars

_HADOOP = "spark.hadoop.fs.s3a."
_FIXED = {
    "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
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

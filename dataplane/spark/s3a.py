"""How Spark finds its way to S3: settings of Hadoop's S3A, from the usual environment variables.

Credentials of the lake are no settings: the JVM finds them where the rest of this process does, in
the environment, so that no event log or page of Spark shows them.
"""

from __future__ import annotations

from collections.abc import Mapping

from dataplane.lakes.lake_addresses import endpoint_of

FILE_SYSTEM = "org.apache.hadoop.fs.s3a.S3AFileSystem"

_S3A = "fs.s3a."
_FIXED = {
    "fs.s3.impl": FILE_SYSTEM,
    f"{_S3A}aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    # Files are uploaded where they belong and appear when the job commits: nothing is renamed,
    # which S3 cannot.
    f"{_S3A}committer.name": "magic",
    "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    # The other kind of stream, the default, gives up where an answer is cut; this one goes on from
    # there.
    f"{_S3A}input.stream.type": "classic",
    # Paths are fresh, so nothing is looked for before it is made; and no empty objects stand for
    # folders.
    f"{_S3A}performance.flags": "create,delete,mkdir",
}


def of_lake(environ: Mapping[str, str]) -> dict[str, str]:
    """Properties of Hadoop's, and one of Spark's, for a JVM whose lake is on S3."""
    return {**_FIXED, **_place(environ)}


def place_of(environ: Mapping[str, str]) -> dict[str, str]:
    """Properties for a reader instead of a JVM: where the store is, and how it is read."""
    names = ("aws.credentials.provider", "input.stream.type")
    return {**{f"{_S3A}{name}": _FIXED[f"{_S3A}{name}"] for name in names}, **_place(environ)}


def _place(environ: Mapping[str, str]) -> dict[str, str]:
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    settings = {f"{_S3A}endpoint.region": region} if region else {}
    endpoint = endpoint_of(environ)
    if not endpoint:
        return settings
    return settings | {
        f"{_S3A}endpoint": endpoint,
        f"{_S3A}path.style.access": "true",
        f"{_S3A}connection.ssl.enabled": str(endpoint.startswith("https:")).lower(),
    }

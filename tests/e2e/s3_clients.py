"""Clients of S3 and what each reads of a dataset in the view: the Parquet files as a folder, or the
Delta table.

Those whose requirements do not have to agree with ours come from the package index into the user's
cache, and run in processes of their own. Does not belong here: what is expected of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import duckdb_extension_delta  # type: ignore[import-untyped]  # a folder with the extension
import duckdb_extension_httpfs  # type: ignore[import-untyped]  # likewise
import obstore
import polars
import pyarrow as pa
import pyarrow.dataset
from deltalake import DeltaTable
from obstore.store import S3Store
from pyarrow.fs import FileSelector, S3FileSystem

from dataplane.spark import jars
from dataplane.spark.wheels import installed
from tests.e2e.tables import by_parquet
from tests.jars import DELTA_CONF, delta_classpath
from tests.servers import trino
from tests.servers.programs import by_go

TESTS = Path(__file__).parents[1]
MC = "github.com/minio/mc@v0.0.0-20250313080218-cf909e1063a9"
LIMIT_S = 300.0

DOWNLOAD = """\
import json, pathlib, sys
endpoint, folders = json.loads(sys.argv[1])
"""
BY_BOTO3 = (
    DOWNLOAD
    + """\
import boto3
client = boto3.client("s3", endpoint_url=endpoint)
for prefix, folder in folders.items():
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="default", Prefix=prefix, Delimiter="/")
    for page in pages:
        for found in page.get("Contents", ()):
            client.download_file("default", found["Key"], str(pathlib.Path(folder, found["Key"].removeprefix(prefix))))
"""
)
ONE_PAGE = """\
import json, sys
import boto3
endpoint, asked = json.loads(sys.argv[1])
found = boto3.client("s3", endpoint_url=endpoint).list_objects_v2(Bucket="default", MaxKeys=2, **asked)
json.dump([[one["Key"] for one in found["Contents"]], found.get("NextContinuationToken")], sys.stdout)
"""
BY_S3FS = (
    DOWNLOAD
    + """\
import s3fs
files = s3fs.S3FileSystem(endpoint_url=endpoint)
for prefix, folder in folders.items():
    for name in files.glob(f"default/{prefix}*.parquet"):
        pathlib.Path(folder, name.rpartition("/")[2]).write_bytes(files.cat_file(name))
"""
)
BY_SPARK = """\
import json, os, sys
from datetime import UTC, datetime
from pyspark.sql import SparkSession
import headgate
conf, folders = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]")
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
hg = headgate.connect(url=os.environ["HEADGATE_URL"], token=os.environ["HEADGATE_TOKEN"])

def of_package(address):
    ref, flow, name = address.split("/")
    branch, _, time = ref.partition("@")
    name, _, generation = name.partition("@")
    dataset = hg.branch(branch)[flow][name]
    if generation:
        dataset = dataset.at(int(generation))
    if time:
        dataset = dataset.at(datetime.strptime(time, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC))
    return dataset.to_spark(spark, s3=True)

for address, (form, folder) in folders:
    load = spark.read.format(form).load
    frame = of_package(address) if form == "headgate" else load(f"s3a://default/{address}")
    frame.write.parquet(folder)
spark.stop()
"""


@dataclass(frozen=True)
class View:
    """Where the view is, and a key. `addresses`: of datasets, below the bucket, without a slash at
    the end."""

    url: str
    access_key: str
    secret_key: str
    addresses: tuple[str, ...]
    token: str = field(default="", repr=False)  # of the API, which answers at the same address

    @property
    def environment(self) -> dict[str, str]:
        """What most clients take."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": "eu-central-1",  # any
            "AWS_ENDPOINT_URL": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": "*",
        }

    @property
    def options(self) -> dict[str, str]:
        """Of deltalake and polars."""
        return {
            "aws_endpoint_url": self.url,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "aws_region": "us-east-1",
            "aws_allow_http": "true",
        }


Tables = Mapping[str, pa.Table]  # by address
Reads = Callable[[View, Path], Tables]


def one_page(view: View, prefix: str, token: str | None = None) -> tuple[list[str], str | None]:
    """The keys of a page of a listing by boto3, and the token of the next one."""
    asked = {"Prefix": prefix} | ({"ContinuationToken": token} if token else {})
    packages = installed(TESTS / "s3_clients.requirements")
    keys, following = json.loads(
        _python(view, packages, "-c", ONE_PAGE, json.dumps([view.url, asked]))
    )
    return keys, following


# --- the files, which are read here ---


def by_boto3(view: View, scratch: Path) -> Tables:
    return _downloaded(view, scratch, "s3_clients", BY_BOTO3)


def by_s3fs(view: View, scratch: Path) -> Tables:
    return _downloaded(view, scratch, "s3fs", BY_S3FS)


def by_aws_cli(view: View, scratch: Path) -> Tables:
    folders, packages = _folders(view, scratch), installed(TESTS / "s3_clients.requirements")
    for address, folder in folders.items():
        _python(
            view,
            packages,
            "-m",
            "awscli",
            "s3",
            "sync",
            "--quiet",
            f"s3://default/{address}/",
            str(folder),
        )
    return _read(folders)


def by_mc(view: View, scratch: Path) -> Tables:
    folders, program = _folders(view, scratch), by_go(MC)
    secrets = f"{view.access_key}:{view.secret_key}"
    environment = {
        "MC_HOST_view": view.url.replace("//", f"//{secrets}@"),
        "MC_CONFIG_DIR": str(scratch / "mc"),
    }
    for address, folder in folders.items():
        _run(
            [str(program), "--quiet", "mirror", f"view/default/{address}/", str(folder)],
            environment,
        )
    return _read(folders)


def by_obstore(view: View, scratch: Path) -> Tables:
    folders = _folders(view, scratch)
    for address, folder in folders.items():
        store = S3Store(
            "default",
            prefix=address,
            endpoint=view.url,
            access_key_id=view.access_key,
            secret_access_key=view.secret_key,
            region="us-east-1",
            client_options={"allow_http": True},
        )
        for found in obstore.list_with_delimiter(store)["objects"]:
            (folder / found["path"]).write_bytes(obstore.get(store, found["path"]).bytes())
    return _read(folders)


def by_pyarrow(view: View, scratch: Path) -> Tables:
    files = S3FileSystem(
        access_key=view.access_key,
        secret_key=view.secret_key,
        endpoint_override=view.url,
        region="us-east-1",
    )

    def read(address: str) -> pa.Table:
        listed = files.get_file_info(FileSelector(f"default/{address}"))
        names = [info.path for info in listed if info.is_file]
        return pyarrow.dataset.dataset(names, filesystem=files, format="parquet").to_table()

    return {address: read(address) for address in view.addresses}


# --- tables ---


def by_polars(view: View, scratch: Path) -> Tables:
    def read(address: str) -> pa.Table:
        return polars.read_parquet(
            f"s3://default/{address}/*.parquet", storage_options=view.options
        ).to_arrow()

    return {address: read(address) for address in view.addresses}


def by_polars_delta(view: View, scratch: Path) -> Tables:
    def read(address: str) -> pa.Table:
        return polars.read_delta(f"s3://default/{address}", storage_options=view.options).to_arrow()

    return {address: read(address) for address in view.addresses}


def by_deltalake(view: View, scratch: Path) -> Tables:
    def read(address: str) -> pa.Table:
        return DeltaTable(
            f"s3://default/{address}", storage_options=view.options
        ).to_pyarrow_table()

    return {address: read(address) for address in view.addresses}


def by_duckdb(view: View, scratch: Path) -> Tables:
    return _by_duckdb(view, "read_parquet('s3://default/{}/*.parquet')")


def by_duckdb_delta(view: View, scratch: Path) -> Tables:
    return _by_duckdb(view, "delta_scan('s3://default/{}')")


def by_spark(view: View, scratch: Path) -> Tables:
    return _by_spark(view)["parquet"]


def by_spark_delta(view: View, scratch: Path) -> Tables:
    return _by_spark(view)["delta"]


def by_package(view: View, scratch: Path) -> Tables:
    """`to_spark(spark, s3=True)` of the package for notebooks."""
    return _by_spark(view)["headgate"]


def by_trino(view: View, scratch: Path) -> Tables:
    """Delta."""
    properties = {
        "s3.endpoint": view.url,
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
        "s3.aws-access-key": view.access_key,
        "s3.aws-secret-key": view.secret_key,
    }
    found = {}
    with trino.running(scratch, properties) as server:
        for number, address in enumerate(view.addresses):
            server.table(f"t{number}", f"s3://default/{address}")
            found[address] = pa.Table.from_pylist(server.rows(f"SELECT * FROM t{number}"))
    return found


CLIENTS: Mapping[str, Reads] = {
    "boto3": by_boto3,
    "aws-cli": by_aws_cli,
    "mc": by_mc,
    "s3fs": by_s3fs,
    "obstore": by_obstore,
    "pyarrow": by_pyarrow,
    "polars, Parquet": by_polars,
    "polars, Delta": by_polars_delta,
    "deltalake": by_deltalake,
    "DuckDB, Parquet": by_duckdb,
    "DuckDB, Delta": by_duckdb_delta,
    "Spark, Parquet": by_spark,
    "Spark, Delta": by_spark_delta,
    "Spark, to_spark": by_package,
    "Trino, Delta": by_trino,
}


def _by_duckdb(view: View, relation: str) -> Tables:
    with duckdb.connect() as connection:
        for package in (duckdb_extension_httpfs, duckdb_extension_delta):
            (extension,) = Path(package.__path__[0]).rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{extension}'")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{view.access_key}', SECRET '{view.secret_key}', REGION 'us-east-1', "
            f"ENDPOINT '{view.url.partition('//')[2]}', USE_SSL false, URL_STYLE 'path')"
        )
        queries = {address: f"FROM {relation.format(address)}" for address in view.addresses}
        return {
            address: connection.execute(query).to_arrow_table()
            for address, query in queries.items()
        }


@lru_cache(maxsize=1)
def _by_spark(view: View) -> Mapping[str, Tables]:
    """In all forms, since a session takes longer to start than to read."""
    conf = DELTA_CONF | {
        "spark.driver.extraClassPath": f"{delta_classpath()}{os.pathsep}{jars.classpath(jars.S3)}",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.hadoop.fs.s3a.endpoint": view.url,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.access.key": view.access_key,
        "spark.hadoop.fs.s3a.secret.key": view.secret_key,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    with TemporaryDirectory() as name:
        scratch = Path(name)
        conf["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
        found = {form: _named(view, scratch / form) for form in ("parquet", "delta", "headgate")}
        asked = [
            (address, (form, str(folder)))
            for form, folders in found.items()
            for address, folder in folders.items()
        ]
        environment = {
            "PYSPARK_PYTHON": sys.executable,
            "HEADGATE_URL": view.url,
            "HEADGATE_TOKEN": view.token,
        }
        _run([sys.executable, "-c", BY_SPARK, json.dumps([conf, asked])], environment)
        return {form: _read(folders) for form, folders in found.items()}


def _downloaded(view: View, scratch: Path, requirements: str, script: str) -> Tables:
    folders = _folders(view, scratch)
    asked = json.dumps(
        [view.url, {f"{address}/": str(folder) for address, folder in folders.items()}]
    )
    _python(view, installed(TESTS / f"{requirements}.requirements"), "-c", script, asked)
    return _read(folders)


def _named(view: View, scratch: Path) -> dict[str, Path]:
    """A folder for each address, which is not made yet."""
    return {address: scratch / str(number) for number, address in enumerate(view.addresses)}


def _folders(view: View, scratch: Path) -> dict[str, Path]:
    folders = _named(view, scratch)
    for folder in folders.values():
        folder.mkdir()
    return folders


def _read(folders: Mapping[str, Path]) -> Tables:
    return {address: by_parquet(folder) for address, folder in folders.items()}


def _python(view: View, packages: Path, *arguments: str) -> str:
    """With these packages and none of ours."""
    return _run(
        [sys.executable, "-S", *arguments], {**view.environment, "PYTHONPATH": str(packages)}
    )


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command[:6]}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout

"""Jars with which Spark itself reads Delta tables. Headgate needs none; tests read its tables with them.

They are fetched once per user, by Maven if it is installed, else by Spark's own resolver, which is slower.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

POM = Path(__file__).with_name("pom.xml")
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
RESOLVE = """\
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2]).getOrCreate().stop()
"""
DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def delta_classpath() -> str:
    """For `spark.driver.extraClassPath` of a JVM that is still to start; `DELTA_CONF` is to be set as well."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate"
    folder = cache / f"jars-{sha256(POM.read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        _fetch(folder)
    return os.pathsep.join(sorted(map(str, folder.glob("*.jar"))))


def _fetch(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix="jars-") as scratch:
        found = (_by_maven if shutil.which("mvn") else _by_spark)(Path(scratch))
        try:
            found.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise


def _by_maven(scratch: Path) -> Path:
    target = scratch / "jars"
    command = ["mvn", "-B", "-ntp", "-q", "-f", str(POM), GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return target


def _by_spark(scratch: Path) -> Path:
    """Takes no more than the POM names: what these jars depend on, PySpark has, in versions of its own."""
    subprocess.run(
        [sys.executable, "-c", RESOLVE, ",".join(coordinates()), str(scratch)], check=True, stdout=sys.stderr
    )
    target = scratch / "wanted"
    target.mkdir()
    for group, artifact, version in (coordinate.split(":") for coordinate in coordinates()):
        (scratch / "jars" / f"{group}_{artifact}-{version}.jar").rename(target / f"{artifact}-{version}.jar")
    return target


def coordinates() -> list[str]:
    """`group:artifact:version` of each jar in the POM."""
    project = ElementTree.parse(POM).getroot()
    parts = ("groupId", "artifactId", "version")
    return [":".join(d.findtext(part, "") for part in parts) for d in project.findall("./dependencies/dependency")]

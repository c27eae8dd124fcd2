"""Jars with which Spark itself reads Delta tables, and those of servers. Headgate needs none; tests do.

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
    return os.pathsep.join(sorted(map(str, fetched(POM).glob("*.jar"))))


def fetched(pom: Path) -> Path:
    """The folder with the jars that a POM lists, and with what these depend on as far as it excludes nothing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate"
    folder = cache / f"jars-{sha256(pom.read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        _fetch(pom, folder)
    return folder


def _fetch(pom: Path, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder.parent, prefix="jars-") as scratch:
        found = (_by_maven if shutil.which("mvn") else _by_spark)(pom, Path(scratch))
        try:
            found.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise


def _by_maven(pom: Path, scratch: Path) -> Path:
    target = scratch / "jars"
    command = ["mvn", "-B", "-ntp", "-q", "-f", str(pom), GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return target


def _by_spark(pom: Path, scratch: Path) -> Path:
    """Of a POM with exclusions no more than it names: what these jars depend on, PySpark has, in its own versions."""
    wanted = coordinates(pom)
    subprocess.run([sys.executable, "-c", RESOLVE, ",".join(wanted), str(scratch)], check=True, stdout=sys.stderr)
    if b"<exclusion>" not in pom.read_bytes():
        return scratch / "jars"
    target = scratch / "wanted"
    target.mkdir()
    for group, artifact, version in (coordinate.split(":") for coordinate in wanted):
        (scratch / "jars" / f"{group}_{artifact}-{version}.jar").rename(target / f"{artifact}-{version}.jar")
    return target


def coordinates(pom: Path = POM) -> list[str]:
    """`group:artifact:version` of each jar in a POM."""
    project = ElementTree.parse(pom).getroot()
    parts = ("groupId", "artifactId", "version")
    return [":".join(d.findtext(part, "") for part in parts) for d in project.findall("./dependencies/dependency")]

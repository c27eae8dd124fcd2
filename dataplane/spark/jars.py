"""Jars that PySpark lacks: fetched once per user into the cache, unless HEADGATE_JARS says where
they lie.

By Maven if it is installed, else by Spark's own resolver, which heeds `spark.jars.repositories` and
`spark.jars.ivySettings`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

from dataplane.spark.cache_folder import cache_folder
from dataplane.spark.java import NoSpark, provide_java
from dataplane.spark.scratch import scratch_folder, sweep
from dataplane.spark.spark_session import conf_from_environment

S3, AZURE, GCS, CONNECTORS = (
    Path(__file__).with_name(f"{name}.pom.xml") for name in ("s3", "azure", "gcs", "connectors")
)
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
RESOLVE = """\
import sys
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway
jvm = launch_gateway(SparkConf()).jvm
wanted, folder, all_of_it, repositories, settings = sys.argv[1:]
jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
    bool(all_of_it), "", wanted, repositories or None, folder, jvm.scala.Option.apply(settings or None)
)
"""
TELLING = re.compile(r"\[ERROR]|nresolved|Server access error|Exception: ")
REPORTED_LINES = 5
FETCH_S = 900.0
DELTA_JAR = "delta-spark_*.jar"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class NoJars(NoSpark):
    """They could not be fetched; the text says why and what to do."""

    condition = "jars-missing"


def classpath(pom: Path, environ: Mapping[str, str] = os.environ) -> str:
    """For `spark.driver.extraClassPath` of a JVM that is still to start."""
    folder = environ.get("HEADGATE_JARS")
    return _joined(Path(folder) if folder else fetched(pom, environ))


def given_conf(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings of Spark for the folder of HEADGATE_JARS: all in it is found, and Delta is on where
    its jar is."""
    folder = environ.get("HEADGATE_JARS")
    if not folder:
        return {}
    paths = {f"spark.{who}.extraClassPath": _joined(Path(folder)) for who in ("driver", "executor")}
    return paths | (DELTA if any(Path(folder).glob(DELTA_JAR)) else {})


def _joined(folder: Path) -> str:
    return os.pathsep.join(sorted(map(str, folder.glob("*.jar"))))


def fetched(
    pom: Path,
    environ: Mapping[str, str] = os.environ,
    finish: Callable[[Path], None] = lambda _: None,
) -> Path:
    """The folder with the jars that a POM lists, and with what these depend on as far as it
    excludes nothing. `finish` gets the folder before other processes see it."""
    folder = cache_folder(environ) / f"jars-{sha256(pom.read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        _fetch(pom, folder, environ, finish)
    return folder


def _fetch(
    pom: Path, folder: Path, environ: Mapping[str, str], finish: Callable[[Path], None]
) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(folder.parent)  # a process that is killed while it fetches leaves its jars
    with scratch_folder(folder.parent) as scratch:
        jars_folder = (_by_maven if shutil.which("mvn") else _by_spark)(pom, scratch, environ)
        finish(jars_folder)
        try:
            jars_folder.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise


def _by_maven(pom: Path, scratch: Path, _: Mapping[str, str]) -> Path:
    target = scratch / "jars"
    _run(
        [
            "mvn",
            "-B",
            "-ntp",
            "-q",
            "-f",
            str(pom),
            GOAL,
            "-DincludeScope=runtime",
            f"-DoutputDirectory={target}",
        ]
    )
    return target


def _by_spark(pom: Path, scratch: Path, environ: Mapping[str, str]) -> Path:
    """A POM with exclusions gives no more than it names: PySpark has the other jars, in its own
    versions."""
    provide_java()
    coordinates_of_pom, conf = coordinates(pom), conf_from_environment(environ)
    all_of_it = "" if b"<exclusion>" in pom.read_bytes() else "all"
    where = [conf.get(f"spark.jars.{name}", "") for name in ("repositories", "ivySettings")]
    _run(
        [
            sys.executable,
            "-c",
            RESOLVE,
            ",".join(coordinates_of_pom),
            str(scratch),
            all_of_it,
            *where,
        ]
    )
    for group, artifact, version in (coordinate.split(":") for coordinate in coordinates_of_pom):
        jar = scratch / "jars" / f"{group}_{artifact}-{version}.jar"
        if jar.is_file():  # else another version came, which a dependency requires
            jar.rename(scratch / "jars" / f"{artifact}-{version}.jar")
    return scratch / "jars"


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=FETCH_S,
        )
    except subprocess.TimeoutExpired:
        raise NoJars(f"jars that Spark needs were not fetched within {FETCH_S:.0f} s") from None
    if done.returncode:
        lines = done.stdout.strip().splitlines()
        words = "\n".join((list(filter(TELLING.search, lines)) or lines)[:REPORTED_LINES])
        raise NoJars(
            f"jars that Spark needs could not be fetched; put them into a folder named by HEADGATE_JARS: {words}"
        )


def coordinates(pom: Path) -> list[str]:
    """`group:artifact:version` of each jar in a POM."""
    project = ElementTree.parse(pom).getroot()
    parts = ("groupId", "artifactId", "version")
    return [
        ":".join(d.findtext(part, "") for part in parts)
        for d in project.findall("./dependencies/dependency")
    ]

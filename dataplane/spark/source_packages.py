"""Jars of the packages that a source of Spark lists, and of the packages that these depend on.

They are fetched once per user into the cache, as other jars are (`dataplane.spark.jars`). Their
checksums stand beside them and are compared before each use.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from dataplane.spark.jars import NoJars, fetched

MOST_BYTES = 256 << 20  # of all jars of one source, and so of each
CHECKSUMS = "checksums.json"
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>headgate</groupId><artifactId>source-packages</artifactId><version>1</version>
<dependencies>
{}
</dependencies>
</project>
"""
DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)


class BadJars(NoJars):
    """They are too large, or were changed after they were fetched."""

    condition = "packages-refused"


def package_jars(
    packages: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    most_bytes: int = MOST_BYTES,
) -> dict[Path, str]:
    """The jars with their SHA-256 in hex. Raises NoJars where they cannot be fetched, and BadJars
    where they are not usable."""
    with TemporaryDirectory(prefix="headgate-pom-") as scratch:
        pom = Path(scratch) / "pom.xml"
        pom.write_text(_pom_text(packages), encoding="utf-8")
        with _files_up_to(most_bytes):
            folder = fetched(pom, environ, partial(_record, most_bytes))
    checksums = _checksums(folder)
    if checksums != _recorded(folder):
        message = f"jars in {folder} differ from their recorded checksums"
        raise BadJars(f"{message}: delete the folder, and they are fetched again")
    return {folder / name: checksum for name, checksum in checksums.items()}


@contextmanager
def _files_up_to(most_bytes: int) -> Iterator[None]:
    """Meanwhile, neither this process nor one that it starts writes a larger file: a resolver
    downloads jars before their sizes can be seen here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limits = [limit for limit in (soft, hard, most_bytes) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_FSIZE, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _recorded(folder: Path) -> object:
    """The checksums that were recorded; None where the file is lost or damaged."""
    try:
        return json.loads((folder / CHECKSUMS).read_bytes())
    except (OSError, ValueError):
        return None


def _pom_text(packages: Sequence[str]) -> str:
    dependencies = [DEPENDENCY.format(*package.split(":")) for package in sorted(packages)]
    return POM.format("\n".join(dependencies))


def _record(most_bytes: int, folder: Path) -> None:
    """Write the checksums of the fetched jars beside them. Raises BadJars."""
    size_bytes = sum(jar.stat().st_size for jar in folder.glob("*.jar"))
    if size_bytes > most_bytes:
        message = f"the packages and their dependencies take {size_bytes:,} bytes"
        raise BadJars(f"{message}; {most_bytes:,} are allowed: list fewer packages")
    (folder / CHECKSUMS).write_text(json.dumps(_checksums(folder)), encoding="utf-8")


def _checksums(folder: Path) -> dict[str, str]:
    """SHA-256 in hex by file name."""
    checksums: dict[str, str] = {}
    for jar in sorted(folder.glob("*.jar")):
        with jar.open("rb") as file:
            checksums[jar.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return checksums

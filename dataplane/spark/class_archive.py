"""Spark's classes as an archive, which a JVM maps instead of loading and checking them one by one.

It belongs to one Java, one PySpark and one class path, and a JVM that it does not fit passes over
it (class data sharing, JEP 350). A session that does a little of everything makes it, once for each
user.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from dataplane.contract.encoding import digest
from dataplane.spark.cache_folder import cache_folder

FOLDER = "HEADGATE_CLASSES"  # where archives lie; `off`: none is made or used
UNUSED_S = 30 * 86_400.0
_CLASS_PATH = "spark.driver.extraClassPath"
_QUIET = "-Xlog:disable -Xlog:all=error:stderr"  # about an archive that does not fit, too


def archive(conf: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> Path | None:
    """Where the archive for sessions with this class path lies, or would lie. None: there is to be
    none."""
    folder, home = environ.get(FOLDER), environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java", path=environ.get("PATH"))
    if folder == "off" or java is None:
        return None
    parts = [
        _folder_stamp(Path(java).resolve().parents[1] / "lib"),
        _folder_stamp(Path(_find_spark_home()) / "jars"),
    ]
    key = digest("classes/1", parts=parts, more=conf.get(_CLASS_PATH, ""))
    return (Path(folder) if folder else cache_folder(environ) / "classes") / f"{key.hex()[:16]}.jsa"


def in_order(conf: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """With Spark's jars by name on the class path, where archives may come from another machine: by
    itself a JVM takes them in the order in which a file system lists them, and an archive is for
    one order."""
    if environ.get(FOLDER, "off") == "off":
        return dict(conf)
    own = sorted(map(str, (Path(_find_spark_home()) / "jars").glob("*.jar")))
    return {**conf, _CLASS_PATH: os.pathsep.join([*filter(None, [conf.get(_CLASS_PATH)]), *own])}


def options(conf: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> str:
    """The JVM options that map the archive; empty where there is none."""
    file = archive(conf, environ)
    return f'"-XX:SharedArchiveFile={file}" {_QUIET}' if file and file.is_file() else ""


@contextmanager
def making(file: Path) -> Iterator[str]:
    """The option with which a JVM, when it ends, writes a new archive, which then replaces the old
    one. One at a time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with (file.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for abandoned in file.parent.glob("*.new"):  # by processes that were killed
            abandoned.unlink()
        unfinished = file.with_suffix(".new")
        yield f'"-XX:ArchiveClassesAtExit={unfinished}" {_QUIET}'
        if unfinished.is_file():
            unfinished.rename(file)
            _forget_unused(file.parent)


def _forget_unused(folder: Path) -> None:
    """Delete archives that were long unused, as of Sparks no longer installed; each is as large as
    the one just made."""
    for other in folder.glob("*.jsa"):
        if time.time() - max(other.stat().st_atime, other.stat().st_mtime) > UNUSED_S:
            other.unlink(missing_ok=True)


def _folder_stamp(folder: Path) -> list[str]:
    """A text that changes when files of a folder do."""
    files = sorted(f for f in folder.glob("*") if f.is_file())
    return [str(folder), *(f"{f.name} {f.stat().st_size} {int(f.stat().st_mtime)}" for f in files)]

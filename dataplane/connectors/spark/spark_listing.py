"""Partitions of a data source as the component declares them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from dataplane.contract.jobs import ConnectJob, ConnectorSettings, ListJob
from dataplane.contract.keys import key_of
from dataplane.contract.source_objects import ListedPartition, SourceObject
from dataplane.listing.listed_partitions import listed
from dataplane.task_failures import TaskFailure

# What the operator allows, separated by commas: names of sources; packages as
# `group:artifact:version`, or `group:artifact:*` for each version
FORMATS, PACKAGES = "HEADGATE_SPARK_FORMATS", "HEADGATE_SPARK_PACKAGES"
ALL = "all"  # the key of a source that is one partition


def partitions(job: ListJob) -> Iterator[ListedPartition]:
    """One for each value of the option, or one. With `each run` each listing has a version of its
    own."""
    settings = job["settings"]
    check_format(settings, os.environ)
    version = f"run:{time.time_ns()}" if settings["version"] == "each run" else "options:"
    for key, name in sorted((_key_of(name), name) for name in settings.get("values", [ALL])):
        source: SourceObject = {
            "name": name,
            "uri": f"{job['location']}/{quote(name)}",
            "size": 0,
            "modified_ms": 0,
            "version": version,
            "columns": None,
        }
        yield listed(key, [source], ())


def _key_of(name: str) -> str:
    key = key_of(name, None)
    assert key is not None, "without a template every name is a key"
    return key


def check(job: ConnectJob) -> None:
    """Whether the operator allows the format; a worker has no Spark to try more."""
    check_format(job["settings"], os.environ)


def check_format(settings: ConnectorSettings, environ: Mapping[str, str]) -> None:
    """TaskFailure for a name or a package that the operator does not allow. A class of the user's
    own is code as any other."""
    name = settings["format"]
    formats = {text.lower() for text in _listed(environ, FORMATS)}
    if name and name.lower() not in formats:
        message = f"the format {name} is not among those that {FORMATS} allows"
        raise TaskFailure("format-refused", f"{message}: ask the operator to add it there")
    packages = _listed(environ, PACKAGES)
    for package in settings.get("packages", ()):
        any_version = package.rpartition(":")[0] + ":*"
        if packages.isdisjoint({package, any_version}):
            message = f"the package {package} is not among those that {PACKAGES} allows"
            raise TaskFailure("package-refused", f"{message}: ask the operator to add it there")


def _listed(environ: Mapping[str, str], name: str) -> frozenset[str]:
    return frozenset(text.strip() for text in environ.get(name, "").split(","))

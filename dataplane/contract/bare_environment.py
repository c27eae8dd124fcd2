"""The environment of processes that run texts of users: ours without secrets of the installation.

What clients of the lake need stays.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

SECRETS = "HEADGATE_"  # nothing that is named so is a query's business, but how Spark is started
FOR_SPARK = frozenset(
    {"HEADGATE_CLASSES", "HEADGATE_JARS", "HEADGATE_JVM", "HEADGATE_LAKE", "HEADGATE_SPARK_CONF"}
)


def bare(names: frozenset[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in names or not name.startswith(SECRETS)
    }

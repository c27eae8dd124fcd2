"""The file that says what an attempt came to, from which its work can be adopted when nobody is left to report it.

Does not belong here: adopting.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pyspark

from dataplane.contract import CONTRACT, MANIFEST, Claim, Json, Manifest, TaskResult
from dataplane.secrets import without_secrets


def write_manifest(lake: Path, claim: Claim, results: Sequence[TaskResult]) -> bool:
    """Put `<prefix>/manifest.json` unless there is one; False if there is. It appears whole or not at all."""
    folder = lake / claim["prefix"]
    folder.mkdir(parents=True, exist_ok=True)
    manifest: Manifest = {
        "contract": CONTRACT,
        "attempt": claim["attempt"],
        "results": without_secrets(results),
        "versions": versions(),
    }
    temporary = folder / f".{MANIFEST}.{os.getpid()}"
    try:
        with temporary.open("x", encoding="utf-8") as file:
            json.dump(manifest, file)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, folder / MANIFEST)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def versions() -> Json:
    try:
        headgate = version("headgate")
    except PackageNotFoundError:  # run from a source tree that is not installed
        headgate = "0"
    return {"spark": pyspark.__version__, "python": platform.python_version(), "headgate": headgate}

"""The file of an attempt's results, from which they can be adopted when no process is left to
report them."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from dataplane.contract.claims import CONTRACT, Claim
from dataplane.contract.results import MANIFEST, Manifest, TaskResult
from dataplane.secrets import without_secrets
from dataplane.storage.lake import Lake


def write_manifest(lake: Lake, claim: Claim, results: Sequence[TaskResult]) -> bool:
    """Put `<prefix>/manifest.json` unless there is one; False if there is. It appears whole or not
    at all."""
    manifest: Manifest = {
        "contract": CONTRACT,
        "attempt": claim["attempt"],
        "results": without_secrets(results),
        "versions": versions(),
    }
    return lake.put_if_absent(f"{claim['prefix']}/{MANIFEST}", json.dumps(manifest).encode())


def versions() -> dict[str, str]:
    try:
        headgate = version("headgate")
    except PackageNotFoundError:  # run from a source tree that is not installed
        headgate = "0"
    return {"spark": version("pyspark"), "python": platform.python_version(), "headgate": headgate}

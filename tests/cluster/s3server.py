"""An S3 server, compiled once per user from Go modules. Does not belong here: starting it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster import debian
from tests.cluster.binaries import cache

VERSION = "v1.8.0"


def binary() -> Path:
    """The program `versitygw`."""
    target = cache() / f"versitygw-{VERSION}" / "versitygw"
    if not target.exists():
        if shutil.which("go") is None:
            raise debian.MissingTool("no Go here: the S3 server is compiled with it (Debian: golang-go)")
        target.parent.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent.parent, prefix="versitygw-") as scratch:
            module = f"github.com/versity/versitygw/cmd/versitygw@{VERSION}"
            environment = os.environ | {"GOBIN": f"{scratch}/bin", "GOFLAGS": "-trimpath"}
            subprocess.run(["go", "install", module], check=True, env=environment, stdout=sys.stderr)
            os.rename(f"{scratch}/bin", target.parent)
    return target

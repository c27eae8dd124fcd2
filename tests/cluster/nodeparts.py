"""The programs of a node: ours, compiled once from `node/` with the versions of `plane/`, and
Debian's runtime.

Does not belong here: starting them (`whole.py`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster import debian
from tests.cluster.binaries import SOURCES as PLANE
from tests.cluster.binaries import VERSION_OF, cache, version
from tests.tools import on_path

SOURCES = Path(__file__).with_name("node")
RUNTIME = ("containerd", "runc", "containernetworking-plugins", "iptables", "conntrack")
# As the plane's: Go's cache is kept by them
FLAGS = {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false"}


def node_binaries() -> Path:
    """The folder with `node` and `pause`."""
    files = {PLANE / "go.mod", PLANE / "go.sum", *SOURCES.rglob("*.go")}
    digest = sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()[:16]
    folder = cache() / f"node-{version()}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.parent / "node.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _compile(folder)
    return folder


def _compile(folder: Path) -> None:
    on_path("go")
    major, minor, _ = version().removeprefix("v").split(".", 2)
    told = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    flags = " ".join(
        ["-s -w", *(f"-X {VERSION_OF}.{name}={value}" for name, value in told.items())]
    )
    with TemporaryDirectory(dir=folder.parent, prefix="node-") as scratch:
        sources, target = Path(scratch) / "node", Path(scratch) / "bin"
        shutil.copytree(SOURCES, sources)
        for name in ("go.mod", "go.sum"):
            shutil.copy(PLANE / name, sources)
        target.mkdir()
        for package, name in ((".", "node"), ("./pause", "pause")):
            command = ["go", "build", "-ldflags", flags, "-o", f"{target}/{name}", package]
            subprocess.run(
                command, check=True, cwd=sources, env=os.environ | FLAGS, stdout=sys.stderr
            )
        target.rename(folder)


def runtime() -> Path:
    """A folder that containerd, runc, CNI plug-ins and iptables are unpacked in."""
    return debian.unpacked(RUNTIME)

"""Kubernetes, compiled once per user from Go modules: what `plane/` has below it, in the version
that its go.mod names.

The first time takes ten minutes of a processor and 2 GB of Go's own cache. Does not belong here:
starting what is made.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.tools import on_path

SOURCES = Path(__file__).with_name("plane")
HASH = re.compile(r"-[0-9a-f]{16}")
KEPT = 3  # of what differs in its hash only
# Without it the servers call themselves v0.0.0, and clients stumble
VERSION_OF = "k8s.io/component-base/version"


class MissingTool(RuntimeError):
    """This machine lacks something that no package registry can give."""


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headgate"


def used(found: Path) -> Path:
    """What is used now. Of its kind those that were used last are kept in the cache: some are
    gigabytes."""
    os.utime(found)
    kind = HASH.sub("", found.name)
    alike = [other for other in found.parent.iterdir() if HASH.sub("", other.name) == kind]
    for other in sorted(alike, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
        if other.is_dir():
            shutil.rmtree(other, ignore_errors=True)
        else:
            other.unlink(missing_ok=True)
            other.with_name(f"{other.name}.digest").unlink(missing_ok=True)
    return found


def binaries() -> Path:
    """The folder with `headgate-test-plane` and all that lies in folders beside its sources."""
    files = sorted(p for p in SOURCES.rglob("*") if p.suffix in (".go", ".mod", ".sum"))
    digest = sha256()
    for file in files:
        digest.update(f"{file.relative_to(SOURCES)}\n".encode() + file.read_bytes())
    folder = cache() / f"kubernetes-{version()}-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        _compile_once(folder)
    return folder


def version() -> str:
    """Of Kubernetes, such as v1.34.4."""
    found = re.search(
        r"^\s*k8s\.io/kubernetes (v\S+)$", (SOURCES / "go.mod").read_text(), re.MULTILINE
    )
    assert found is not None
    return found[1]


def _compile_once(folder: Path) -> None:
    """One process compiles, others wait for it."""
    on_path("go")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "kubernetes.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with TemporaryDirectory(dir=folder.parent, prefix="kubernetes-") as scratch:
                _compile(Path(scratch) / "bin")
                (Path(scratch) / "bin").rename(folder)


def _compile(target: Path) -> None:
    target.mkdir()
    major, minor, _ = version().removeprefix("v").split(".", 2)
    told = {"gitVersion": version(), "gitMajor": major, "gitMinor": minor}
    flags = " ".join(
        ["-s -w", *(f"-X {VERSION_OF}.{name}={value}" for name, value in told.items())]
    )
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-trimpath -buildvcs=false"}
    command = ["go", "build", "-ldflags", flags, "-o", f"{target}/", "./..."]
    subprocess.run(command, check=True, cwd=SOURCES, env=environment, stdout=sys.stderr)

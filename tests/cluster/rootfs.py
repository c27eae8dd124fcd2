"""Running commands in the file system that layers come to, as a build's `RUN` does. As root.

Does not belong here: layers themselves, and what is run.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster import oci
from tests.cluster.binaries import cache

DEVICES = {"null": 3, "zero": 5, "random": 8, "urandom": 9}  # minor numbers of the major 1


@contextmanager
def unpacked(layers: Iterable[Path]) -> Iterator[Path]:
    """A folder with all of them, the later over the earlier, and with what a builder adds while it
    runs something."""
    with TemporaryDirectory(dir=cache(), prefix="root-") as folder:
        root = Path(folder)
        for layer in layers:
            subprocess.run(["tar", "--extract", "--file", layer, "--directory", root], check=True)
        for name in ("dev", "proc", "etc"):
            (root / name).mkdir(exist_ok=True)
        for name, minor in DEVICES.items():
            os.mknod(root / "dev" / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        (root / "dev" / "fd").symlink_to("/proc/self/fd")
        (root / "etc" / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n")
        yield root


def run(root: Path, environment: Mapping[str, str], *command: str) -> None:
    """CalledProcessError if it fails."""
    apart = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        f"--root={root}",
        "--mount-proc",
    ]
    subprocess.run(
        [*apart, *command],
        check=True,
        env={"PATH": oci.PATH, **environment},
        stdout=subprocess.DEVNULL,
    )

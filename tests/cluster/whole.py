"""A whole throw-away Kubernetes of one node around a command: `python -m tests.cluster.whole
COMMAND...`, as root.

All of it lives in namespaces of its own, so that nothing listens on this machine and nothing
outlives the command. Does not belong here: what happens inside (`inside.sh`), and what is tested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dataplane.spark.jars import NoJars, fetched
from tests.cluster import store
from tests.cluster.binaries import MissingTool, binaries
from tests.cluster.images import Recipe, example_data, recipes
from tests.cluster.nodeparts import node_binaries, runtime
from tests.servers import kafka

INSIDE = Path(__file__).with_name("inside.sh")
TOOLS = {
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "ip": "iproute2",
    "mount": "mount",
    "bash": "bash",
}
# By which containerd and all that is in images comes
TOOLS |= {"apt-get": "apt", "dpkg-deb": "dpkg"}
APART = ("--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "--kill-child")


def run(command: Sequence[str]) -> int:
    """The command's exit status. MissingTool if this machine cannot have such a cluster."""
    _require()
    began = time.monotonic()
    parts = _with_data(recipes())
    fetched(kafka.POM)  # of a server that tests start inside, where no registry is
    prepared = [binaries(), node_binaries(), runtime(), store.store(parts)]
    home = Path(tempfile.mkdtemp(prefix="k8s-", dir="/tmp"))  # short: sockets lie in it
    try:
        archives = home / "images"
        archives.mkdir()
        store.newest(parts, archives)
        sys.stderr.write(
            f"binaries, layers and images are there after {time.monotonic() - began:.1f} s\n"
        )
        apart = ["setpriv", "--pdeathsig", "KILL", "unshare", *APART]
        return subprocess.run([*apart, INSIDE, home, *prepared, *command], check=False).returncode
    finally:
        _tidy(home)


def _with_data(parts: dict[str, Recipe]) -> dict[str, Recipe]:
    """Sources of the tests are files that every pod of the data plane has."""
    plane = parts["dataplane"]
    return parts | {"dataplane": replace(plane, stable=(*plane.stable, example_data()))}


def _require() -> None:
    """All that is missing, at once."""
    missing = [
        f"{name} (Debian: {package})"
        for name, package in TOOLS.items()
        if shutil.which(name) is None
    ]
    if os.geteuid() != 0:
        missing.append("root, which alone may make namespaces, mounts and control groups")
    if "overlay" not in Path("/proc/filesystems").read_text():
        missing.append("the kernel's overlay file system")
    if missing:
        raise MissingTool("a whole cluster needs " + "; ".join(missing))


def _tidy(home: Path) -> None:
    """Control groups are the one thing that outlives the namespaces, beside files."""
    for hierarchy in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
        _remove_groups(hierarchy / f"headgate-{home.name}")
    shutil.rmtree(home, ignore_errors=True)


def _remove_groups(group: Path) -> None:
    """A group can be removed a moment after its last process has gone."""
    for _ in range(50):
        found = (
            sorted((p for p in group.rglob("*") if p.is_dir()), reverse=True)
            if group.is_dir()
            else []
        )
        for folder in [*found, group] if group.is_dir() else []:
            try:
                folder.rmdir()
            except OSError:
                time.sleep(0.1)
                break
        else:
            return


if __name__ == "__main__":
    try:
        sys.exit(run(sys.argv[1:]))
    except (MissingTool, NoJars) as error:
        sys.exit(f"headgate: {error}")

"""A store of containerd with the stable layers of all images, made once; every cluster starts from
hard links to it.

Unpacked layers are only ever read, so that they can be shared. Does not belong here: what is in
images (`images.py`).
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster import debian, images, oci
from tests.cluster.binaries import cache, used
from tests.cluster.images import Recipe
from tests.cluster.nodeparts import runtime

CONFIG = """\
version = 2
root = "{root}"
state = "{run}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{run}/sock"
[ttrpc]
address = "{run}/ttrpc"
"""


def store(recipes: dict[str, Recipe]) -> Path:
    """The folder that containerd's `root` is copied from. Images with Headgate's code are in it
    without that code."""
    key = sha256(
        "".join(layer.name for r in recipes.values() for layer in r.stable).encode()
    ).hexdigest()[:16]
    folder = cache() / f"containerd-{key}"
    if not folder.is_dir():
        with TemporaryDirectory(dir=cache(), prefix="containerd-") as scratch:
            archives = [_archive(name, recipe, Path(scratch)) for name, recipe in recipes.items()]
            _fill(Path(scratch) / "store", Path(scratch), archives)
            os.rename(f"{scratch}/store", folder)
    return used(folder)


def _archive(name: str, recipe: Recipe, folder: Path) -> Path:
    target = folder / f"{name}.tar"
    image = (
        images.reference(name) if not recipe.has_code else f"localhost/headgate/{name}:without-code"
    )
    oci.write(recipe.image(image, None), debian.architecture(), target)
    return target


def newest(recipes: dict[str, Recipe], folder: Path) -> None:
    """Archives, small ones, of the images that hold this working tree's code; layers of the store
    are left out."""
    code = images.code()
    for name, recipe in recipes.items():
        if recipe.has_code:
            image = recipe.image(images.reference(name), code, below=recipe.stable)
            oci.write(image, debian.architecture(), folder / f"{name}.tar")


def _fill(root: Path, run: Path, archives: Iterable[Path]) -> None:
    with _containerd(root, run) as ctr:
        for archive in archives:
            subprocess.run(
                [*ctr, "images", "import", str(archive)], check=True, stdout=subprocess.DEVNULL
            )


@contextmanager
def _containerd(root: Path, run: Path) -> Iterator[list[str]]:
    """A containerd of its own mounts; the command that speaks with it."""
    root.mkdir()
    (run / "config").write_text(CONFIG.format(root=root, run=run))
    programs = runtime() / "usr" / "bin"
    apart = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--net"]
    command = [*apart, f"{programs}/containerd", "-c", f"{run}/config"]
    ctr = [str(programs / "ctr"), "-a", f"{run}/sock", "-n", "k8s.io"]
    with (run / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode:
                if process.poll() is not None:
                    raise RuntimeError(
                        "containerd did not start: " + (run / "log").read_text()[-1000:]
                    )
                time.sleep(0.05)
            yield ctr
        finally:
            process.terminate()
            process.wait()

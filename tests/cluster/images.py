"""The images of `deploy/images`, assembled without a container engine: the same packages, locks and
scripts in layers.

Layers are made once and kept in the user's cache; only the one with Headgate itself is as new as
the working tree. Does not belong here: how a layer is written (`layers.py`), the store that pods
start from (`store.py`).
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import deltalake
import pyarrow.csv

from controlplane.demo.data import lay_out
from controlplane.demo.download import VERSION
from dataplane.spark import jars
from tests.cluster import containerfile, debian, layers, oci, rootfs
from tests.cluster.binaries import cache, used
from tests.cluster.containerfile import FILES, Runs
from tests.cluster.layers import Layer
from tests.cluster.nodeparts import node_binaries
from tests.servers import s3
from tests.wheels import wheel

ROOT = Path(__file__).parents[2]
LIB = "opt/headgate/lib"
TAG = "0.1.0"
# Below /data/wheels
PACKAGE = ("hgpodpkg", "1.0", "def told(name):\n    return f'{name}, by {__file__}'\n")
FORM = "2"  # of layers; to be raised when the way that they are made changes


# What decides the archive of classes, beside the layers below it
CLASSES_CODE = [
    ROOT / "dataplane" / "spark" / f"{name}.py"
    for name in ("class_archive", "warmup", "spark_session")
]


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image: layers that are stable, whether Headgate's own code lies on top, and how it
    runs."""

    stable: tuple[Path, ...]
    has_code: bool
    runs: Runs

    def image(self, name: str, code: Path | None, below: tuple[Path, ...] = ()) -> oci.Image:
        wanted = (*self.stable, code) if code and self.has_code else self.stable
        own = tuple(layer for layer in wanted if layer not in below)
        runs = self.runs
        return oci.Image(
            name, below, own, runs.entrypoint, runs.command, runs.user, dict(runs.environment)
        )


def recipes() -> dict[str, Recipe]:
    """By name; `pause` is the node's own."""
    pause = _files("pause", {"pause": node_binaries() / "pause"})
    spark = (_userland("dataplane"), _site("dataplane"), _jars())
    layers = {
        "controlplane": (_userland("controlplane"), _site("controlplane")),
        "dataplane": (*spark, _classes(spark), _scripts("dataplane", "entrypoint.sh", "decom.sh")),
        "postgresql": (_userland("postgresql"), _scripts("postgresql", "postgresql.sh")),
        "s3": (_userland("s3"), _s3(), _scripts("s3", "s3.sh")),
    }
    made = {
        name: Recipe(stable, name.endswith("plane"), containerfile.read(name))
        for name, stable in layers.items()
    }
    return {"pause": Recipe((pause,), False, Runs(65535, ("/pause",))), **made}


def example_data() -> Path:
    """A layer with the raw data of the flights example, by month, in /data: every pod has the same
    files. Airlines are a Delta table, too. With it comes a package to require, since pods reach no
    index."""

    def fill(layer: Layer) -> None:
        with TemporaryDirectory() as scratch:
            lay_out(Path(scratch))
            deltalake.write_deltalake(
                f"{scratch}/delta", pyarrow.csv.read_csv(f"{scratch}/airlines.csv")
            )
            wheel(Path(scratch) / "wheels", *PACKAGE)
            layer.tree(Path(scratch), "data")

    return _layer("flights", [VERSION, "delta", *PACKAGE], fill)


def reference(name: str) -> str:
    """What manifests call an image."""
    return f"localhost/headgate/{name}:{TAG}"


def code() -> Path:
    """The layer with this working tree's Headgate."""
    with TemporaryDirectory() as scratch:
        for folder in ("controlplane", "dataplane", "headgate"):
            shutil.copytree(
                ROOT / folder, f"{scratch}/{folder}", ignore=shutil.ignore_patterns("__pycache__")
            )
        files = sorted(p for p in Path(scratch).rglob("*") if p.is_file())
        key = [
            *(f"{p.relative_to(scratch)} {sha256(p.read_bytes()).hexdigest()}" for p in files),
            "pyproject",
        ]
    return _layer(
        "code", [*key, (ROOT / "pyproject.toml").read_text()], lambda layer: _install(layer, "")
    )


def _userland(image: str) -> Path:
    names = (FILES / f"{image}.packages").read_text().split()
    users = containerfile.users(image)
    authorities = ["certificates"] if "ca-certificates" in names else []

    def fill(layer: Layer) -> None:
        layers.userland(layer, names, users)
        if any("jre" in name for name in names):
            layers.java(layer)

    return _layer(
        f"userland-{image}",
        [*(p.name for p in debian.packages(names)), str(users), *authorities],
        fill,
    )


def _site(plane: str) -> Path:
    lock = FILES / f"{plane}.lock"
    return _layer(f"site-{plane}", [lock.read_text()], lambda layer: _install(layer, str(lock)))


def _install(layer: Layer, lock: str) -> None:
    uv = subprocess.run(
        [ROOT / "scripts" / "find-uv"], check=True, capture_output=True, text=True
    ).stdout.strip()
    with TemporaryDirectory(dir=cache()) as scratch:
        subprocess.run([FILES / "install", uv, f"{scratch}/lib", lock], check=True)
        layer.tree(Path(scratch) / "lib", LIB, skip=_is_no_need)


def _is_no_need(path: str) -> bool:
    return "__pycache__" in path or path == ".lock" or path.startswith(("pyspark/examples", "bin/"))


def _scripts(image: str, *names: str) -> Path:
    return _files(f"scripts-{image}", {f"opt/{name}": FILES / name for name in names})


def _jars() -> Path:
    """What Spark lacks for lakes in object stores, and for connectors."""
    poms = (jars.S3, jars.AZURE, jars.GCS, jars.CONNECTORS)
    found = [jar for pom in poms for jar in sorted(jars.fetched(pom).glob("*.jar"))]
    return _files("jars", {f"opt/headgate/jars/{jar.name}": jar for jar in found}, 0o644)


def _classes(below: tuple[Path, ...]) -> Path:
    """The archive of Spark's classes, by the command of the Containerfile, and that of Java's own,
    which Debian's package makes when it is installed. They fit the files below them alone."""
    environment = dict(containerfile.read("dataplane").environment)

    def fill(layer: Layer) -> None:
        with rootfs.unpacked([*below, code()]) as root:
            rootfs.run(root, environment, "java", "-Xshare:dump")
            rootfs.run(root, environment, "python3", "-m", "dataplane", "prepare")
            made = [
                *root.glob("opt/headgate/classes/*.jsa"),
                *root.glob("usr/lib/jvm/java-17-*/lib/server/classes.jsa"),
            ]
            assert len(made) == 2, made
            for archive in made:
                layer.content(archive.relative_to(root).as_posix(), archive.read_bytes())

    makers = [path.read_text() for path in CLASSES_CODE]
    return _layer("classes", [*(layer.name for layer in below), str(environment), *makers], fill)


def _s3() -> Path:
    return _files("versitygw", {"usr/local/bin/versitygw": s3.binary()})


def _files(name: str, files: dict[str, Path], mode: int = 0o755) -> Path:
    def fill(layer: Layer) -> None:
        for path, source in files.items():
            layer.content(path, source.read_bytes(), mode)

    bodies = [f"{path} {sha256(source.read_bytes()).hexdigest()}" for path, source in files.items()]
    return _layer(name, bodies, fill)


def _layer(name: str, key: Iterable[str], fill: Callable[[Layer], None]) -> Path:
    """The tar of this key, made by `fill` if it is not in the cache."""
    digest = sha256("\n".join([FORM, *key]).encode()).hexdigest()[:16]
    target = cache() / "layers" / f"{name}-{digest}.tar"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent, prefix=f"{name}-") as scratch:
            layer = Layer(Path(scratch) / "layer")
            fill(layer)
            layer.close()
            (Path(scratch) / "layer").rename(target)
    return used(target)

"""Debian packages of this machine's own release and architecture, fetched once per user and never
installed.

They are unpacked into a folder, or streamed into a layer of an image. No maintainer script runs, so
what those would make (links of alternatives, users) is for the caller to add. Does not belong here:
which packages.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cluster.binaries import MissingTool, cache

NOTHING_INSTALLED = (
    "-o",
    "Dir::State::status=/dev/null",
    "-o",
    "Debug::NoLocking=1",
    "-o",
    "APT::Sandbox::User=root",
)
MERGED = re.compile(r"^(bin|sbin|lib|lib64)(?=/|$)")  # folders that are links into /usr
NO_NEED = re.compile(
    r"^usr/(share/(doc|man|locale|info|lintian|bug|bash-completion|zsh)|include)(/|$)"
)


def packages(names: Sequence[str]) -> tuple[Path, ...]:
    """The archives of these packages and of all that they depend on."""
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise MissingTool(
                f"no {tool} here: packages come from a Debian or from what is made of one"
            )
    known = _folder() / f"{sha256(' '.join(names).encode()).hexdigest()[:16]}.list"
    if not known.exists():
        _fetch(names, known)
    return tuple(_folder() / name for name in known.read_text().split())


def _folder() -> Path:
    release = re.search(
        r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(), re.MULTILINE
    )
    return cache() / f"debian-{release[1] if release else 'unknown'}"


def _fetch(names: Sequence[str], known: Path) -> None:
    known.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=known.parent, prefix="fetch-") as scratch:
        (Path(scratch) / "partial").mkdir()
        _apt("-o", f"Dir::Cache::archives={scratch}", "--download-only", "install", *names)
        found = sorted(p.name for p in Path(scratch).glob("*.deb"))
        for name in found:
            (Path(scratch) / name).replace(known.parent / name)
        draft = Path(scratch) / "list"
        draft.write_text("".join(f"{name}\n" for name in found))
        draft.replace(known)


def _apt(*arguments: str) -> None:
    """By the lists of packages that this machine has; where those are none or too old, by new ones
    of our own."""
    lists = _folder() / "lists"
    own = ("-o", f"Dir::State::Lists={lists}")
    if _fails(*arguments):
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        if why := _fails(*own, "update") or _fails(*own, *arguments):
            raise MissingTool(f"apt-get cannot fetch: {why[-500:]}")


def _fails(*arguments: str) -> str:
    """What apt-get says if it does."""
    command = [
        "apt-get",
        *NOTHING_INSTALLED,
        "-o",
        "APT::Install-Recommends=0",
        "-qq",
        "--yes",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stderr.strip() or f"it ended with {done.returncode}") if done.returncode else ""


def unpacked(names: Sequence[str]) -> Path:
    """A folder that these packages are unpacked in, with the archives' own paths."""
    archives = packages(names)
    digest = sha256("".join(a.name for a in archives).encode()).hexdigest()[:16]
    folder = _folder() / f"unpacked-{digest}"
    if not folder.is_dir():
        with TemporaryDirectory(dir=folder.parent, prefix="unpack-") as scratch:
            for archive in archives:
                subprocess.run(["dpkg-deb", "-x", archive, f"{scratch}/root"], check=True)
            os.rename(f"{scratch}/root", folder)
    return folder


def members(archive: Path) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    """What a package holds, below a merged /usr, without what only people read."""
    with (
        subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE
        ) as process,
        tarfile.open(fileobj=process.stdout, mode="r|") as tar,
    ):
        for member in tar:
            member.name = _merged(member.name)
            if member.islnk():
                member.linkname = _merged(member.linkname)
            if member.name and not NO_NEED.match(member.name):
                yield member, tar


def _merged(name: str) -> str:
    return MERGED.sub(r"usr/\1", name.removeprefix("./").strip("/").removeprefix("."))


def architecture() -> str:
    """As Debian calls it: amd64, arm64."""
    return subprocess.run(
        ["dpkg", "--print-architecture"], check=True, capture_output=True, text=True
    ).stdout.strip()

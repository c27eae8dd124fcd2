"""Layers of images as tar files: of Debian packages, of folders, of single files. Equal content
gives equal bytes.

Does not belong here: images (`oci.py`) and what they hold (`images.py`).
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests.cluster import debian

LINKS = {name: f"usr/{name}" for name in ("bin", "sbin", "lib", "lib64")}
Skip = Callable[[str], bool]


class Layer:
    """A tar that is being written: parents before children, each path once, all owned by root, no
    times."""

    def __init__(self, target: Path) -> None:
        self._tar = tarfile.open(target, "w", format=tarfile.PAX_FORMAT)  # noqa: SIM115  # closed by `close`
        self._seen: set[str] = set()

    def close(self) -> None:
        self._tar.close()

    def folder(self, path: str, mode: int = 0o755) -> None:
        if path and path not in self._seen:
            self.folder(path.rpartition("/")[0])
            self._add(path, tarfile.DIRTYPE, mode)

    def link(self, path: str, to: str) -> None:
        self.folder(path.rpartition("/")[0])
        self._add(path, tarfile.SYMTYPE, 0o777, to=to)

    def text(self, path: str, text: str, mode: int = 0o644) -> None:
        self.content(path, text.encode(), mode)

    def content(self, path: str, body: bytes, mode: int = 0o644) -> None:
        self.folder(path.rpartition("/")[0])
        self._add(path, tarfile.REGTYPE, mode, body=body)

    def tree(self, source: Path, at: str, skip: Skip = lambda _: False) -> None:
        """A folder with all that is in it; `skip` is asked for paths relative to it."""
        self.folder(at)
        for found in sorted(source.rglob("*")):
            relative = found.relative_to(source).as_posix()
            if skip(relative):
                continue
            if found.is_symlink():
                self.link(f"{at}/{relative}", found.readlink().as_posix())
            elif found.is_dir():
                self.folder(f"{at}/{relative}")
            else:
                self.content(
                    f"{at}/{relative}",
                    found.read_bytes(),
                    0o755 if found.stat().st_mode & 0o100 else 0o644,
                )

    def package(self, archive: Path) -> None:
        """A Debian package."""
        for member, tar in debian.members(archive):
            if member.isdir():
                self.folder(member.name, member.mode)
            elif member.issym():
                self.link(member.name, member.linkname)
            elif member.islnk():
                self._add(member.name, tarfile.LNKTYPE, member.mode, to=member.linkname)
            elif member.isfile():
                body = tar.extractfile(member)
                assert body is not None
                self.content(member.name, body.read(), member.mode & 0o755)

    def _add(self, path: str, kind: bytes, mode: int, *, to: str = "", body: bytes = b"") -> None:
        if path in self._seen:
            return
        self._seen.add(path)
        entry = tarfile.TarInfo(path)
        entry.type, entry.mode, entry.linkname, entry.size = kind, mode, to, len(body)
        self._tar.addfile(entry, io.BytesIO(body))


def userland(layer: Layer, names: Sequence[str], users: Mapping[str, int]) -> None:
    """These Debian packages, and what makes of them a system: users, links, certificates, a folder
    for all."""
    for name, target in LINKS.items():
        layer.link(name, target)
    layer.folder("tmp", 0o1777)
    everybody = {"root": 0, **users}
    layer.text(
        "etc/passwd",
        "".join(f"{name}:x:{id}:{id}::/tmp:/bin/sh\n" for name, id in everybody.items()),
    )
    layer.text("etc/group", "".join(f"{name}:x:{id}:\n" for name, id in everybody.items()))
    archives = debian.packages(names)
    for archive in archives:
        layer.package(archive)
    if trusted := b"".join(_certificates(archives)):
        layer.content("etc/ssl/certs/ca-certificates.crt", trusted)
    layer.link("usr/bin/sh", "dash")
    layer.link("usr/bin/python", "python3")
    layer.text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")


def _certificates(archives: Sequence[Path]) -> Iterator[bytes]:
    """Of all authorities that Debian trusts: programs look for them in one file, even those that
    need none."""
    for archive in archives:
        for member, tar in (
            debian.members(archive) if archive.name.startswith("ca-certificates_") else ()
        ):
            if member.name.startswith("usr/share/ca-certificates/") and member.isfile():
                body = tar.extractfile(member)
                assert body is not None
                yield body.read()


def java(layer: Layer) -> None:
    """What installing a JRE leaves: the command, by its name."""
    machine = debian.architecture()
    layer.link("usr/bin/java", f"../lib/jvm/java-17-openjdk-{machine}/bin/java")

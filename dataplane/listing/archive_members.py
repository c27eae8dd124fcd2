"""Members of an archive, one after the other, within bounds. Nothing is written to the names that
members have. Runs in a process with bounds.
"""

from __future__ import annotations

import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self, cast

from dataplane.contract.archives import archive_kind

MOST_MEMBERS = 100_000
MOST_BYTES = 64 << 30  # of all members, unpacked
MOST_RATIO = 200  # unpacked to packed, from FREE_BYTES on
FREE_BYTES = 64 << 20
CHUNK = 1 << 20
LAST_S = 253_402_300_800  # the end of the year 9999
_UNSAFE = re.compile(r"/|.*\\|[A-Za-z]:|(.*/)?\.\.?(/|$)|.*//|.*[\0-\x1f]", re.DOTALL)
_ENCRYPTED = 0x1  # a bit of a member's flags in a zip file


class BadArchive(ValueError):
    """An archive that is not read. `condition` is the code of the error."""

    def __init__(self, message: str, condition: str = "archive-refused") -> None:
        super().__init__(message)
        self.condition = condition


class Member(NamedTuple):
    """A file in an archive. `version` is empty where the archive has no checksum of it; `open` may
    be called until the next member is taken."""

    name: str
    size: int
    modified_ms: int
    version: str
    open: Callable[[], BinaryIO]


def members(path: Path, kind: str, is_wanted: Callable[[str], bool]) -> Iterator[Member]:
    """The wanted members, in the order of the archive. BadArchive for a name that leads out of it,
    for a wanted member that is no plain file, that is encrypted, an archive or a second one of its
    name, and for more than the bounds."""
    files = _of_zip(path, is_wanted) if kind == "zip" else _of_tar(path, kind, is_wanted)
    names: set[str] = set()
    for member in files:
        if member.name in names:
            raise BadArchive(f"two members are named {member.name!r}: remove one of them")
        if archive_kind(member.name):
            raise BadArchive(f"{member.name!r} is an archive in an archive: unpack it first")
        names.add(member.name)
        yield member


def _safe(name: str) -> str:
    """The name of a member without a `./` before it."""
    plain = "" if name == "." else name.removeprefix("./")
    if _UNSAFE.match(plain) and plain:
        raise BadArchive(f"the name {name[:200]!r} leads out of the archive, or is no plain path")
    try:
        plain.encode()
    except UnicodeEncodeError as e:
        raise BadArchive(f"the name {name[:200]!r} is not UTF-8", "bad-file-name") from e
    return plain


def _check_bounds(count: int, unpacked: int, packed: int) -> None:
    if count > MOST_MEMBERS:
        raise BadArchive(f"it has more than {MOST_MEMBERS} members: split it", "archive-too-large")
    if unpacked > MOST_BYTES:
        limit = f"{MOST_BYTES >> 30} GiB"
        raise BadArchive(f"it takes more than {limit} unpacked: split it", "archive-too-large")
    if unpacked > max(FREE_BYTES, packed * MOST_RATIO):
        message = f"it unpacks to more than {MOST_RATIO} times its size: store it less compressed"
        raise BadArchive(message, "archive-too-large")


# --- zip ------------------------------------------------------------------------------------------


def _of_zip(path: Path, is_wanted: Callable[[str], bool]) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        headers = archive.infolist()
        unpacked = sum(header.file_size for header in headers)
        _check_bounds(len(headers), unpacked, path.stat().st_size)
        for header in headers:
            name = _safe(header.filename.removesuffix("/") if header.is_dir() else header.filename)
            if not header.is_dir() and is_wanted(name):
                _check_header(header)
                version = f"zip:{header.CRC:08x} {header.file_size}"
                opened = cast("Callable[[], BinaryIO]", lambda header=header: archive.open(header))
                yield Member(name, header.file_size, _time(header), version, opened)


def _check_header(header: zipfile.ZipInfo) -> None:
    if header.flag_bits & _ENCRYPTED:
        raise BadArchive(f"{header.filename!r} is encrypted: store it without a password")
    mode = header.external_attr >> 16
    if stat.S_IFMT(mode) and not stat.S_ISREG(mode):
        raise BadArchive(f"{header.filename!r} is a link or a device, no file")


def _time(header: zipfile.ZipInfo) -> int:
    """A zip file has local times without a zone: they are taken as UTC."""
    try:
        return round(datetime(*header.date_time, tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return 0


# --- tar ------------------------------------------------------------------------------------------


class _BoundedStream:
    """The unpacked bytes of an archive, within its bounds."""

    def __init__(self, file: BinaryIO, packed: int) -> None:
        self._file, self._packed = file, packed
        self._unpacked = 0

    def read(self, size: int) -> bytes:
        chunk = self._file.read(size)
        self._unpacked += len(chunk)
        _check_bounds(0, self._unpacked, self._packed)
        return chunk


class _Header(tarfile.TarInfo):
    """A header of an archive, which ends by blocks of zeros alone: `tarfile` takes a damaged header,
    and the end of the bytes, for the end of the archive as well."""

    @classmethod
    def fromtarfile(cls, archive: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as e:
            message = f"it is damaged, or ends in the middle: {e}"
            raise BadArchive(message, "MALFORMED_FILE") from e


def _of_tar(path: Path, kind: str, is_wanted: Callable[[str], bool]) -> Iterator[Member]:
    with ExitStack() as files:
        stream = _BoundedStream(files.enter_context(_unpacked(path, kind)), path.stat().st_size)
        archive = files.enter_context(
            tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header)  # type: ignore[call-overload]
        )
        for count, header in enumerate(archive, 1):
            _check_bounds(count, 0, 0)
            name = _safe(header.name)
            if header.isdir() or not is_wanted(name):
                continue
            if not header.isreg() or header.issparse():
                raise BadArchive(f"{header.name!r} is a link, a device or sparse, no plain file")
            opened = cast(
                "Callable[[], BinaryIO]", lambda header=header: archive.extractfile(header)
            )
            yield Member(name, header.size, _tar_time(header), "", opened)
        # The checksum of all bytes stands behind them
        while stream.read(CHUNK):
            pass


def _tar_time(header: tarfile.TarInfo) -> int:
    """0 for one that is no time: headers may hold any number, infinite ones too."""
    return round(header.mtime * 1000) if abs(header.mtime) < LAST_S else 0


def _unpacked(path: Path, kind: str) -> BinaryIO:
    if kind == "tar.gz":
        import gzip

        return cast("BinaryIO", gzip.open(path))
    if kind == "tar.zst":
        import pyarrow as pa

        return cast("BinaryIO", pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")

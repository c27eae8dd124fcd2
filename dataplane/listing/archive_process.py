"""A process of its own that lists or unpacks members of an archive. An archive that takes too much
memory, time or disk ends this process alone.

Run as `python -m dataplane.listing.archive_process REQUEST`, a file with an ArchiveRequest as JSON.
With exit code BAD_ARCHIVE, the last line of standard error is the fault of the archive as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from dataplane.contract.schemas import Json
from dataplane.listing.archive_members import CHUNK, BadArchive, Member, members
from dataplane.listing.file_columns import own_columns
from dataplane.listing.glob import BadGlob, matcher
from dataplane.storage.file_process import bound_process
from dataplane.task_failures import TaskFailure

BAD_ARCHIVE = 2
DISK_BYTES = 8 << 30  # of one member
AS_LISTED = ""  # the outcome of a member that was unpacked
CHANGED = "changed"  # of a member that is another one now, or is not there
# Whose columns stand at the end of a file, or all over it
_READ_WHOLE = ("parquet", "orc", "avro", "json")
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, BadArchive)
_BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError)
_BROKEN_TOO = (NotImplementedError, RuntimeError)  # a method of compression that zipfile lacks


class WantedMember(TypedDict):
    """A member to unpack, as it was listed, and the file to write: another one for each member and
    version."""

    name: str
    version: str
    target: str


class ArchiveRequest(TypedDict):
    """`answer`: the file to write. To list: a MemberLine on each line; to unpack: outcomes by
    target."""

    archive: str
    kind: str
    answer: str
    glob: str
    format: str
    options: Mapping[str, Json]
    unpack: list[WantedMember] | None  # None: list


class MemberLine(TypedDict):
    name: str
    size: int
    modified_ms: int
    version: str
    columns: list[str] | None


def main(request_file: str) -> int:
    bound_process(DISK_BYTES)
    request: ArchiveRequest = json.loads(Path(request_file).read_bytes())
    try:
        with Path(request["answer"]).open("w") as answer:
            if request["unpack"] is None:
                answer.writelines(f"{json.dumps(line)}\n" for line in _listed(request))
            else:
                json.dump(_unpacked(request, request["unpack"]), answer)
    except BadGlob as e:
        return _reported(str(e), "bad-glob")
    except BadArchive as e:
        return _reported(str(e), e.condition)
    except TaskFailure as e:
        return _reported(e.message, e.condition)
    except (*_BROKEN, *_BROKEN_TOO) as e:
        return _reported(f"not readable: {e}", "MALFORMED_FILE")
    return 0


def _reported(message: str, condition: str) -> int:
    sys.stderr.write(f"{json.dumps({'message': message[:500], 'condition': condition})}\n")
    return BAD_ARCHIVE


# --- listing --------------------------------------------------------------------------------------


def _listed(request: ArchiveRequest) -> Iterator[MemberLine]:
    scratch = Path(request["answer"]).with_suffix(".member")
    is_found = matcher(request["glob"])
    for member in members(Path(request["archive"]), request["kind"], is_found):
        version, columns = _version_and_columns(member, request, scratch)
        yield {
            "name": member.name,
            "size": member.size,
            "modified_ms": member.modified_ms,
            "version": version,
            "columns": columns,
        }


def _version_and_columns(
    member: Member, request: ArchiveRequest, scratch: Path
) -> tuple[str, list[str] | None]:
    """The version of a member, and its own columns; None where it is damaged, which its reader will
    say."""
    if not member.version:
        digest = _copy(member, scratch)
        return digest, _columns(member, request, scratch)
    try:
        if request["format"] in _READ_WHOLE:
            _copy(member, scratch)
            return member.version, _columns(member, request, scratch)
        return member.version, _columns(member, request, None)
    except _DAMAGED:
        return member.version, None


def _columns(member: Member, request: ArchiveRequest, copy: Path | None) -> list[str] | None:
    with copy.open("rb") if copy else member.open() as file:
        return own_columns(file, member.name, request["format"], request["options"])


def _copy(member: Member, target: Path) -> str:
    """Write a member to a file. The digest of its bytes as a version."""
    digest, size = hashlib.sha256(), 0
    with member.open() as file, target.open("wb") as output:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            size += output.write(chunk)
    if size != member.size:
        raise BadArchive(f"{member.name!r} ends in the middle", "MALFORMED_FILE")
    return f"sha256:{digest.hexdigest()}"


# --- unpacking ------------------------------------------------------------------------------------


def _unpacked(request: ArchiveRequest, members_of_tasks: list[WantedMember]) -> dict[str, str]:
    """By target: AS_LISTED, CHANGED, or the fault of the member."""
    by_name: dict[str, list[WantedMember]] = {}
    for requested in members_of_tasks:
        by_name.setdefault(requested["name"], []).append(requested)
    outcomes = {requested["target"]: CHANGED for requested in members_of_tasks}
    scratch = Path(request["answer"]).with_suffix(".member")
    for member in members(Path(request["archive"]), request["kind"], by_name.__contains__):
        requests = by_name[member.name]
        if member.version and all(requested["version"] != member.version for requested in requests):
            continue
        try:
            version = _copy(member, scratch)
        except _DAMAGED as e:
            outcomes |= {requested["target"]: f"not readable: {e}" for requested in requests}
            continue
        for requested in requests:
            if requested["version"] == (member.version or version):
                scratch.rename(requested["target"])
                outcomes[requested["target"]] = AS_LISTED
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

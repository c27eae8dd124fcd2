"""Archives as folders of members: started in a process with bounds, listed, and unpacked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from dataplane.contract.archives import archive_kind
from dataplane.contract.jobs import ConnectorJob
from dataplane.contract.source_objects import SourceObject
from dataplane.listing.archive_process import (
    BAD_ARCHIVE,
    ArchiveRequest,
    MemberLine,
    WantedMember,
)
from dataplane.listing.version_cache import FileReading
from dataplane.storage import file_process
from dataplane.storage.file_process import run_module
from dataplane.storage.source_copies import local_copy, place_of
from dataplane.task_failures import TaskFailure

ANSWER_BYTES = 128 << 20  # of the names and columns of all members
_PROCESS = "dataplane.listing.archive_process"


class ArchiveCall(NamedTuple):
    """What a process needs to look into an archive: whose job it is, a folder to work in, and a
    function that raises once the work is over."""

    job: ConnectorJob
    folder: Path
    check: Callable[[], None]


def list_members(
    call: ArchiveCall, archive: SourceObject, glob: str, reading: FileReading
) -> list[MemberLine]:
    """The members that the glob finds. TaskFailure for an archive that is not read; Moved for one
    that is no longer as it was listed."""
    request = _request(glob=glob, reading=reading)
    with TemporaryDirectory(dir=call.folder) as folder:
        answer = _answered(call, archive["uri"], request, Path(folder), archive)
        return [json.loads(line) for line in answer.splitlines()]


def unpack_members(
    call: ArchiveCall, archive: str, requested: Sequence[WantedMember]
) -> dict[str, str]:
    """Outcomes by target: AS_LISTED, CHANGED, or the fault of a member."""
    with TemporaryDirectory(dir=call.folder) as folder:
        outcomes: dict[str, str] = json.loads(
            _answered(call, archive, {**_request(), "unpack": list(requested)}, Path(folder))
        )
    return outcomes


def _request(*, glob: str = "", reading: FileReading | None = None) -> ArchiveRequest:
    return {
        "archive": "",
        "kind": "",
        "answer": "",
        "glob": glob,
        "format": reading.format if reading else "",
        "options": reading.options if reading else {},
        "unpack": None,
    }


def _answered(
    call: ArchiveCall,
    uri: str,
    request: ArchiveRequest,
    folder: Path,
    listed: SourceObject | None = None,
) -> str:
    """What the process writes about an archive as it was listed; as it is now without a listing."""
    kind, place = archive_kind(uri.partition("?")[0]), place_of(uri)
    if kind is None:
        message = f"{place}: `members` reads .zip, .tar, .tar.gz, .tgz and .tar.zst by the name"
        raise TaskFailure("archive-refused", f"{message}: name only archives in `path`", file=place)
    with local_copy(call.job, uri, folder / "archive", call.check, listed) as archive:
        answer = folder / "answer"
        request = {**request, "archive": str(archive), "kind": kind, "answer": str(answer)}
        (folder / "request").write_text(json.dumps(request))
        code, _, error = run_module(_PROCESS, [str(folder / "request")], folder, call.check)
        if code:
            raise _fault(place, code, error)
        if answer.stat().st_size > ANSWER_BYTES:
            message = f"{place}: the names and columns of its members take too much: split it"
            raise TaskFailure("archive-too-large", message, file=place)
        return answer.read_text()


def _fault(place: str, code: int, error: str) -> TaskFailure:
    last = (error.strip().splitlines() or [f"the process ended with code {code}"])[-1]
    if code == BAD_ARCHIVE:
        fault = json.loads(last)
        return TaskFailure(fault["condition"], f"{place}: {fault['message']}", file=place)
    limits = f"{file_process.MEMORY_BYTES >> 30} GiB of memory or {file_process.CPU_S} s"
    message = f"{place}: it takes more than {limits} of processor time: split it ({last[:200]})"
    return TaskFailure("archive-too-large", message, file=place)

"""Streams of committed records, rendered by a process of the data plane, so that Arrow never lives in this one.

Does not belong here: which files make up a generation; HTTP.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import IO, Literal, TypeAlias

from dataplane.contract.schemas import Json, Schema

Format: TypeAlias = Literal["json", "csv", "arrow"]
COMMAND = (sys.executable, "-P", "-m", "dataplane.fragments.records")
CHUNK = 65_536
MEDIA_TYPES: dict[Format, str] = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "arrow": "application/vnd.apache.arrow.stream",
}


def stream(
    lake_uri: str, files: Sequence[str], schema: Schema, *, limit: int | None = None, offset: int = 0, format: Format
) -> Generator[bytes, None, None]:
    """Rows `offset` to `offset + limit` of the files (paths in the lake), in their order, under the dataset's schema.

    JSON is one array of objects; decimals, times and binary values (base64) are text in it. OSError, after some bytes
    perhaps, if a file cannot be read. Closing the iterator early ends the process.
    """
    request = {
        "lake": lake_uri,
        "paths": list(files),
        "schema": schema,
        "limit": limit,
        "offset": offset,
        "format": format,
    }
    with tempfile.TemporaryFile() as errors:
        yield from _run(request, errors)


def _run(request: Json, errors: IO[bytes]) -> Generator[bytes, None, None]:
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
    ) as child:
        assert child.stdin
        assert child.stdout
        try:
            with suppress(BrokenPipeError):
                child.stdin.write(json.dumps(request).encode())
                child.stdin.close()
            while chunk := child.stdout.read1(CHUNK):  # type: ignore[attr-defined]  # Popen's pipes are buffered
                yield chunk
        except GeneratorExit:  # the reader went away
            child.kill()
            raise
    if child.returncode:
        errors.seek(0)
        raise OSError(f"cannot read records: {_last_line(errors.read())}")


def _last_line(text: bytes) -> str:
    return text.decode(errors="replace").strip().rpartition("\n")[2]

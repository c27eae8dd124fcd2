"""Files of the pages: read once, named by their hash, so that browsers keep them for a year and
never too long."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "static"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".LICENSE": "text/plain; charset=utf-8",
    ".json": "application/json",
}
FOR_A_YEAR = "public, max-age=31536000, immutable"
FILE_IN_STYLE = re.compile(rb'url\("([\w.-]+)"\)')


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    zipped: bytes
    version: str
    media_type: str


@cache
def all_files() -> dict[str, StaticFile]:
    """By name."""
    return {path.name: _read(path) for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    if path.suffix == ".css":
        content = FILE_IN_STYLE.sub(_versioned, content)
    return StaticFile(
        content, gzip.compress(content, mtime=0), _version(content), TYPES[path.suffix]
    )


def _version(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


def _versioned(match: re.Match[bytes]) -> bytes:
    """The address of a file that a style names, with its version as `url` has it."""
    name = match[1].decode()
    version = _version((FOLDER / name).read_bytes())
    return f'url("/static/{name}?v={version}")'.encode()


def url(name: str) -> str:
    """The address of one file, with its version. KeyError for an unknown name."""
    return f"/static/{name}?v={all_files()[name].version}"


def serve(request: Request) -> Response:
    """Without a session: the files hold nothing private. An address without the right version is
    not kept."""
    file = all_files().get(request.path_params["name"])
    if file is None:
        return Response("there is no such file\n", 404, media_type="text/plain")
    is_named = request.query_params.get("v") == file.version
    headers = {"Cache-Control": FOR_A_YEAR if is_named else "no-cache", "ETag": f'"{file.version}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    headers["Vary"] = "Accept-Encoding"
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(
            file.zipped, media_type=file.media_type, headers={**headers, "Content-Encoding": "gzip"}
        )
    return Response(file.content, media_type=file.media_type, headers=headers)

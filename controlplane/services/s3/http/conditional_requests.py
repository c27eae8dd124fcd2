"""Which part of an object a request is for, and whether it still wants it: Range, If-Match,
If-None-Match. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from controlplane.services.s3.http.s3_refusals import S3Refused

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def part(headers: Mapping[str, str], size: int) -> tuple[int, int] | None:
    """First byte, and the one behind the last. None: the whole object, as for several ranges, or an
    invalid range. S3Refused where it begins behind the end."""
    match = _RANGE.fullmatch(headers.get("range", "").strip())
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match[1], match[2]
    if not first:
        start, end = max(size - int(last), 0), size
    elif last and int(last) < int(first):
        return None
    else:
        start, end = int(first), min(int(last) + 1, size) if last else size
    if start >= end:
        raise S3Refused("InvalidRange", 416, "the range begins behind the end of the object")
    return start, end


def is_unchanged(headers: Mapping[str, str], etag: str) -> bool:
    """Whether the client has the object already. S3Refused where it wants another one than it
    is."""
    required, held = headers.get("if-match"), headers.get("if-none-match")
    if required is not None and not _names(required, etag):
        raise S3Refused("PreconditionFailed", 412, "the object is another one than If-Match names")
    return held is not None and _names(held, etag)


def _names(text: str, etag: str) -> bool:
    tags = [tag.strip().removeprefix("W/").strip('"') for tag in text.split(",")]
    return "*" in tags or etag in tags

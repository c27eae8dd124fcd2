"""Pages of a bucket: ListObjectsV2, and the first version, whose pages have no common time."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping

from controlplane.services.s3.http import xml
from controlplane.services.s3.http.s3_refusals import S3Refused
from controlplane.services.s3.key_scope import Reader
from controlplane.services.s3.view import (
    ListingPosition,
    NoSuchListing,
    ObjectPage,
    ObjectPageRequest,
    S3View,
)

MOST = 1000
_TIMES, _NUMBERS = range(2**43), range(2**53)  # that a token may hold
_KEYS = ("Prefix", "Delimiter", "StartAfter", "Marker", "NextMarker")  # hold keys, or parts of them


def listing(view: S3View, reader: Reader, query: Mapping[str, str]) -> str:
    """The answer to a request with this query."""
    is_second = query.get("list-type") == "2"
    after = query.get("start-after" if is_second else "marker", "")
    token = query.get("continuation-token") if is_second else None
    page_request = ObjectPageRequest(
        prefix=query.get("prefix", ""),
        delimiter=query.get("delimiter", ""),
        after=after,
        limit=_limit(query.get("max-keys", "")),
        position=None if token is None else _position(token),
    )
    try:
        page = view.page(reader, page_request)
    except NoSuchListing as e:
        raise S3Refused("InvalidArgument", 400, str(e)) from e
    elements = [
        ("Prefix", page_request.prefix),
        ("Delimiter", page_request.delimiter),
        ("MaxKeys", str(page_request.limit)),
    ]
    elements += _second(query, page, token) if is_second else _first(after, page)
    encoding = query.get("encoding-type", "")
    elements.append(("EncodingType", encoding))
    shown = [(name, value) for name, value in elements if value or name in ("Prefix", "Marker")]
    encode = xml.url_encoded if encoding == "url" else xml.text
    return xml.listing(view.namespace, page, head=shown, names=_KEYS, encode=encode)


def _second(query: Mapping[str, str], page: ObjectPage, token: str | None) -> list[tuple[str, str]]:
    count = str(len(page.objects) + len(page.prefixes))
    following = "" if page.next is None else _token(page.next)
    start = query.get("start-after", "")
    return [
        ("StartAfter", start),
        ("KeyCount", count),
        ("ContinuationToken", token or ""),
        ("NextContinuationToken", following),
    ]


def _first(marker: str, page: ObjectPage) -> list[tuple[str, str]]:
    return [("Marker", marker), ("NextMarker", page.next.after if page.next else "")]


def _limit(text: str) -> int:
    if not text:
        return MOST
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise S3Refused("InvalidArgument", 400, "max-keys must be a whole number")
    return min(int(text), MOST)


def _token(position: ListingPosition) -> str:
    values = [position.milliseconds, position.after, position.generation]
    return urlsafe_b64encode(json.dumps(values).encode()).decode("ascii")


def _position(token: str) -> ListingPosition:
    """A client may make one up: it reads no more by it than its scopes cover."""
    try:
        match json.loads(urlsafe_b64decode(token.encode())):
            case [int(milliseconds), str(after), int(generation)] if (
                milliseconds in _TIMES and generation in _NUMBERS
            ):
                return ListingPosition(milliseconds, after, generation)
    except (ValueError, RecursionError):
        pass
    raise S3Refused("InvalidArgument", 400, "the continuation token is none of ours")

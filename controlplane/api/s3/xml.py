"""Answers of the S3 protocol as XML. https://docs.aws.amazon.com/AmazonS3/latest/API/Type_API_Reference.html"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from urllib.parse import quote
from xml.sax.saxutils import escape

from controlplane.operations.s3.objects import S3Object
from controlplane.operations.s3.view import Page

MEDIA_TYPE = "application/xml"
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


def buckets(name: str) -> str:
    """The only one."""
    owner = element("Owner", element("ID", text("headgate")))
    bucket = element("Bucket", element("Name", text(name)), element("CreationDate", instant(0)))
    return document("ListAllMyBucketsResult", owner, element("Buckets", bucket))


def location(region: str) -> str:
    return document("LocationConstraint", text(region))


def versioning() -> str:
    """It is off."""
    return document("VersioningConfiguration")


def listing(
    bucket: str, page: Page, *, asked: Iterable[tuple[str, str]], names: Iterable[str], encode: Callable[[str], str]
) -> str:
    """A page of a bucket. `asked`: names and texts of what the request said; those in `names` hold keys."""
    keys = frozenset(names)
    said = [element(name, (encode if name in keys else text)(value)) for name, value in asked]
    return document(
        "ListBucketResult",
        element("Name", text(bucket)),
        *said,
        element("IsTruncated", "true" if page.next else "false"),
        *(_contents(found, encode) for found in page.objects),
        *(element("CommonPrefixes", element("Prefix", encode(prefix))) for prefix in page.prefixes),
    )


def error(code: str, message: str, resource: str, request_id: str) -> str:
    parts = {"Code": code, "Message": message, "Resource": resource, "RequestId": request_id}
    return _HEAD + element("Error", *(element(name, text(value)) for name, value in parts.items()))


def url_encoded(value: str) -> str:
    """As `encoding-type=url` asks for it."""
    return quote(value, safe="/-_.~")


def text(value: str) -> str:
    """Characters that XML does not have are left out."""
    return escape("".join(filter(_is_character, value)))


def instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def element(name: str, *inner: str) -> str:
    return f"<{name}>{''.join(inner)}</{name}>"


def document(name: str, *inner: str) -> str:
    return f'{_HEAD}<{name} xmlns="{_NAMESPACE}">{"".join(inner)}</{name}>'


_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def _contents(found: S3Object, encode: Callable[[str], str]) -> str:
    return element("Contents", *_parts(found, encode))


def _parts(found: S3Object, encode: Callable[[str], str]) -> Iterator[str]:
    yield element("Key", encode(found.name))
    yield element("LastModified", instant(found.at))
    yield element("ETag", f"&quot;{found.etag}&quot;")
    yield element("Size", str(found.size))
    yield element("StorageClass", "STANDARD")


def _is_character(character: str) -> bool:
    return (
        character in "\t\n\r"
        or " " <= character <= "\ud7ff"
        or "\ue000" <= character <= "\ufffd"
        or character > "\uffff"
    )

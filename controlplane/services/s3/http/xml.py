"""Answers of the S3 protocol as XML.
https://docs.aws.amazon.com/AmazonS3/latest/API/Type_API_Reference.html"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote
from xml.sax.saxutils import escape

from controlplane.services.s3.s3_objects import S3Object
from controlplane.services.s3.view import ObjectPage

MEDIA_TYPE = "application/xml"
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_PLAIN = re.compile(r"[A-Za-z0-9/!@%._=~ -]*", re.ASCII)  # as nearly all names of ours
_NO_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    bucket: str,
    page: ObjectPage,
    *,
    head: Iterable[tuple[str, str]],
    names: Iterable[str],
    encode: Callable[[str], str],
) -> str:
    """A page of a bucket. `head`: elements that repeat the request, as name and text; those in
    `names` hold keys."""
    keys = frozenset(names)
    head_elements = [
        element(name, (encode if name in keys else text)(value)) for name, value in head
    ]
    return document(
        "ListBucketResult",
        element("Name", text(bucket)),
        *head_elements,
        element("IsTruncated", "true" if page.next else "false"),
        *(_contents(s3_object, encode) for s3_object in page.objects),
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
    return value if _PLAIN.fullmatch(value) else escape(_NO_CHARACTER.sub("", value))


@lru_cache(maxsize=64)  # a page has few different ones
def instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def element(name: str, *inner: str) -> str:
    return f"<{name}>{''.join(inner)}</{name}>"


def document(name: str, *inner: str) -> str:
    return f'{_HEAD}<{name} xmlns="{_NAMESPACE}">{"".join(inner)}</{name}>'


_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def _contents(s3_object: S3Object, encode: Callable[[str], str]) -> str:
    """Most of a listing. Written at one go, as there may be 100,000 of them."""
    return (
        f"<Contents><Key>{encode(s3_object.name)}</Key><LastModified>{instant(s3_object.at)}</LastModified>"
        f"<ETag>&quot;{s3_object.etag}&quot;</ETag><Size>{s3_object.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
    )

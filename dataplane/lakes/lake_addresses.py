"""The place of a lake, from its URI and the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

Kind: TypeAlias = Literal["local", "hdfs", "object-store"]


def kind_of(uri: str) -> Kind:
    """A path or a `file:` URI is local. A scheme other than `hdfs:` is left to obstore."""
    scheme = urlsplit(uri).scheme
    if scheme == "file" or "://" not in uri:
        return "local"
    if scheme == "hdfs":
        return "hdfs"
    return "object-store"


def local_root(uri: str) -> Path:
    """The folder that a path or a `file:` URI names."""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return Path(uri)


def endpoint_of(environ: Mapping[str, str]) -> str:
    """Where an S3 server other than the provider's own is; empty for that one."""
    return environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""


def is_plain_http(environ: Mapping[str, str]) -> bool:
    """Whether the S3 server is one without TLS."""
    return endpoint_of(environ).startswith("http://")

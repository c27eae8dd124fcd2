"""The canonical encoding of plain values, and digests of it. Ids of both planes begin here."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any


class Encoded(bytes):
    """The canonical encoding of a value, made before: it stands for the value."""


def canonical(value: object) -> bytes:
    """Encode nested plain values injectively: 1, 1.0 and True differ; lists and tuples do not.

    Mappings must have text keys and are ordered by them.
    """
    kind: Any = type(value)
    return _encoder(kind)(value)


@cache
def _encoder(kind: type) -> Callable[[Any], bytes]:
    for base in kind.__mro__:
        if base in _ENCODERS:
            return _ENCODERS[base]
    if issubclass(kind, Mapping):
        return _mapping
    raise TypeError(f"no canonical encoding for {kind.__name__}")


def _text(value: str) -> bytes:
    body = value.encode()
    return b"s%d:%b" % (len(body), body)


def _integer(value: int) -> bytes:
    body = b"%d" % value
    return b"i%d:%b" % (len(body), body)


def _mapping(value: Mapping[str, object]) -> bytes:
    body = b"".join([canonical(k) + canonical(value[k]) for k in sorted(value)])
    return b"m%d:%b" % (len(body), body)


def _sequence(value: Iterable[object]) -> bytes:
    body = b"".join([canonical(v) for v in value])
    return b"l%d:%b" % (len(body), body)


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"n;",
    bool: lambda value: b"b1;" if value else b"b0;",
    int: _integer,
    float: lambda value: b"f8:" + struct.pack(">d", value),
    str: _text,
    bytes: lambda value: b"x%d:%b" % (len(value), value),
    Encoded: bytes,
    dict: _mapping,
    list: _sequence,
    tuple: _sequence,
}


def digest(tag: str, **fields: object) -> bytes:
    """SHA-256 (32 bytes) over a versioned domain tag, such as `task/1`, and named fields."""
    return sha256(b"headgate/" + tag.encode() + b"\n" + canonical(fields)).digest()

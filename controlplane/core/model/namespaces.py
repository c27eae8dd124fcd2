"""Namespaces: parts of one installation that share nothing with each other, and ids that name their
namespace.

The id of a token, a key or a driver of another namespace than `default` ends with the namespace, so
that the id leads there. It grants nothing: the id has to match there as before.
"""

from __future__ import annotations

import binascii
import re
from base64 import b32decode, b32encode
from dataclasses import dataclass
from typing import Final

DEFAULT: Final = "default"
"""The namespace of the installation itself: it is always there, and its administrators make the
others."""

SHORTEST, LONGEST = 3, 40  # characters: it is a bucket of the S3 view, and a folder of the lake
NAME: Final = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_NAME: Final = re.compile(NAME, re.ASCII)
_ID: Final = re.compile(r"(?:[a-z]+-)?[0-9a-f]+n([a-z2-7]+)", re.ASCII)
_RESERVED: Final = frozenset({"main", "v1"})


@dataclass(frozen=True, slots=True)
class Namespace:
    """One beside `default`, as it was made. `ended`: when it was deleted; its name is not given
    again."""

    name: str
    actor: str
    at: float
    ended: float | None = None


def is_name(text: str) -> bool:
    """Whether a namespace may be called so: lower-case letters, digits and single hyphens between
    them."""
    is_long_enough = SHORTEST <= len(text) <= LONGEST
    return is_long_enough and _NAME.fullmatch(text) is not None and text not in _RESERVED


def id_in(namespace: str, digits: str) -> str:
    """An id of this namespace, of hexadecimal digits (behind a word and a hyphen, as drivers have
    it)."""
    if namespace == DEFAULT:
        return digits
    return f"{digits}n{b32encode(namespace.encode()).decode('ascii').rstrip('=').lower()}"


def of_id(id: str) -> str:
    """The namespace that an id names; `default` where the id names none."""
    match = _ID.fullmatch(id)
    if match is None:
        return DEFAULT
    text = match[1].upper()
    try:
        name = b32decode(text + "=" * (-len(text) % 8)).decode("ascii")
    except (binascii.Error, ValueError):
        return DEFAULT
    return name if is_name(name) else DEFAULT


def text_in(namespace: str, text: str) -> str:
    """A secret text of this namespace: its name stands before a point, which the rest does not
    have."""
    return text if namespace == DEFAULT else f"{namespace}.{text}"


def of_text(text: str) -> str:
    """The namespace in which a secret text is to be looked up."""
    name, point, _ = text.partition(".")
    return name if point and is_name(name) else DEFAULT

"""The name of a partition's file in the S3 view: `<key>!<number>-<fragment>.parquet`.

    date=2013-02            date@2013-02!0-6f1c....parquet
    carrier=UA/month=1      carrier@UA.~month@1!0-6f1c....parquet

Names are flat: Spark reads no folders but `column=value` ones, and replaces a column of the rows by
such a folder's text. They are injective, and their order is that of the keys, so a listing reads
the tree in its own order and sorts nothing. Two things make the order hold:

- `!` ends the key, and is below every character that a key can become;
- a character becomes a text that starts as high among the others as the character itself stands.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FRAGMENT_DIGITS = 32
END = "!"
_SUFFIX = ".parquet"

_PLAIN = re.compile(r"[A-Za-z0-9%._-]*")
_USUAL = re.compile(r"[A-Za-z0-9%._=/-]*")  # all that keys of ours are made of
_REST = re.compile(rf"(0|[1-9][0-9]{{0,8}})-([0-9a-f]{{{FRAGMENT_DIGITS}}}){re.escape(_SUFFIX)}")
_TOKEN = re.compile(
    r"(?P<slash>\.~)|@~(?P<above>[0-9a-f]{2})|(?P<equals>@)|[$,;^`](?P<low>[0-9a-f]{2})|\{(?P<high>[0-9a-f]{6})"
    r"|(?P<plain>[A-Za-z0-9%._-])"
)


class PartName(NamedTuple):
    """`fragment`: the first 32 hexadecimal digits of its id. `number`: which of the fragment's
    files."""

    key: str
    number: int
    fragment: str


def part_name(key: str, number: int, fragment: str) -> str:
    """`fragment`: the id as hexadecimal digits, 32 of which are taken."""
    return f"{encode(key)}{END}{number}-{fragment[:FRAGMENT_DIGITS]}{_SUFFIX}"


def parse(name: str) -> PartName | None:
    """None for all that `part_name` does not make."""
    text, _, rest = name.partition(END)
    match = _REST.fullmatch(rest)
    key, end = _decoded(text)
    if match is None or end < len(text) or encode(key) != text:
        return None
    return PartName(key, int(match[1]), match[2])


def least_key(text: str) -> str:
    """No key below this one has a name that is `text` or comes after it. `text` may be any part of
    a name."""
    return _decoded(text)[0]


def encode(key: str) -> str:
    """The key as it stands in names, in ASCII."""
    if _USUAL.fullmatch(key):
        return key.replace("/", ".~").replace("=", "@")  # as each character by itself
    return "".join(map(_encoded, key))


def _encoded(character: str) -> str:
    """Characters that no key of ours has are written as hexadecimal digits behind one that stands
    where they stand."""
    if _PLAIN.fullmatch(character):
        return character
    match character:
        case "/":
            return ".~"  # after a dot and anything else, and before 0
        case "=":
            return "@"
    for last, start in (("$", "$"), (",", ","), ("<", ";"), ("@", "@~"), ("^", "^"), ("`", "`")):
        if character <= last:
            return f"{start}{ord(character):02x}"
    return f"{{{ord(character):06x}"


def _decoded(text: str) -> tuple[str, int]:
    """What the start of a text decodes to, as far as it does, and how far that is."""
    characters, end = [], 0
    while token := _TOKEN.match(text, end):
        character = _character(token)
        if character is None:
            break
        characters.append(character)
        end = token.end()
    return "".join(characters), end


def _character(token: re.Match[str]) -> str | None:
    if token["slash"]:
        return "/"
    if token["equals"]:
        return "="
    if token["plain"]:
        return token["plain"]
    point = int(token["low"] or token["above"] or token["high"], 16)
    return chr(point) if point < 0x110000 else None

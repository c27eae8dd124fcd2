"""The encodings of text files, as Python names them; a mark at the beginning of a file may decide.

UTF-16 and UTF-32 without a mark are big-endian, as the standard and Java have it.
"""

from __future__ import annotations

import codecs
from typing import Final

_UTF_8: Final = ("utf-8", "utf8")
# Encodings with several bytes for a line break: Spark cannot split files of these into lines.
WIDE: Final = ("utf-16", "utf-16be", "utf-16le", "utf-32", "utf-32be", "utf-32le")
_MARKS: Final = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
_ORDERS: Final = {"": "be", "be": "be", "le": "le"}
HEAD_BYTES: Final = 4  # of a file, to tell its codec


def is_wide(encoding: str) -> bool:
    return encoding.lower() in WIDE


def codec_of(encoding: str, head: bytes) -> str:
    """The codec of a file that begins with these bytes. It passes over a mark, which counts more
    than the name."""
    name = encoding.lower()
    if name in _UTF_8:
        return "utf-8-sig"
    if name not in WIDE:
        return encoding
    family, order = name[:6], name[6:]
    return family if head.startswith(_MARKS[family]) else f"{family}-{_ORDERS[order]}"


def is_swapped(encoding: str, chunk: bytes) -> bool:
    """Whether text without a declared byte order or a mark has line breaks in little-endian order
    alone."""
    codec, other = codec_of(encoding, chunk), f"{encoding.lower()}-le"
    if encoding.lower() not in _MARKS or not codec.endswith("-be"):
        return False
    return "\n" in chunk.decode(other, "ignore") and "\n" not in chunk.decode(codec, "ignore")

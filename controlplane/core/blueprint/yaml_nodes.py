"""The tree of a YAML document: what stands where, with scalars resolved by YAML 1.2's core
schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from controlplane.core.blueprint.text_places import ParamValue, Position, TextPlace


@dataclass(frozen=True, slots=True)
class Scalar:
    """`text` is the characters between quotes or as written; `value` what YAML 1.2 takes them for.

    `style` is the opening character of quoted and block scalars, else empty; `start` and `end` are
    source offsets, equal where the text stands nowhere in the source.
    """

    place: Position
    text: str
    value: ParamValue
    style: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Items:
    """A sequence."""

    place: Position
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping with text keys, in the order of the file, no key twice."""

    place: Position
    entries: tuple[tuple[Scalar, Node], ...]

    def get(self, key: str) -> Node | None:
        return next((value for k, value in self.entries if k.text == key), None)


@dataclass(frozen=True, slots=True)
class BrokenNode:
    """Something that has been reported and can be no value."""

    place: Position


Node: TypeAlias = Scalar | Items | Entries | BrokenNode


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The root and the source text that places refer to."""

    file: str
    source: str
    root: Node


def holds_broken(root: Node) -> bool:
    """Whether a part of it has been reported and has no value."""
    left = [root]
    while left:
        node = left.pop()
        match node:
            case BrokenNode():
                return True
            case Items(items=items):
                left += items
            case Entries(entries=entries):
                left += (value for _, value in entries)
            case Scalar():
                pass
    return False


class NumberError(ValueError):
    """Digits that no number of Spark can hold."""


_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_NUMBER_STARTS = frozenset("+-.0123456789")
_MOST_DIGITS = 38  # of Spark's widest decimal; Python refuses to convert far longer ones
_LIMIT = 10**_MOST_DIGITS
_LONGEST_FLOAT = 400


def resolve(text: str) -> ParamValue:
    """The value of a plain scalar. Raises NumberError for one that is written as a number but too
    long or large."""
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _number(text) if text[0] in _NUMBER_STARTS else text


def _number(text: str) -> ParamValue:
    if _INTEGER.fullmatch(text):
        return _integer(text.lstrip("+-").lstrip("0"), 10) * (-1 if text[0] == "-" else 1)
    if _BASED.fullmatch(text):
        return _integer(text[2:].lstrip("0"), 8 if text[1] == "o" else 16)
    if _FLOAT.fullmatch(text):
        return _finite(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


def _integer(digits: str, base: int) -> int:
    value = int(digits or "0", base) if len(digits) <= _MOST_DIGITS * 2 else _LIMIT
    if value >= _LIMIT:
        raise NumberError(
            f"an integer of {len(digits)} digits; at most {_MOST_DIGITS} are possible"
        )
    return value


def _finite(text: str) -> float:
    value = float(text) if len(text) <= _LONGEST_FLOAT else float("inf")
    if value in (float("inf"), float("-inf")):
        raise NumberError("a number that is too long or too large for a double")
    return value


def text_place(scalar: Scalar, document: YamlDocument) -> TextPlace:
    """Where the characters of a scalar stand in the document."""
    at = scalar.place
    if scalar.style in ("|", ">"):
        return _block_place(scalar, document)
    inset = len(scalar.style)
    exact = (
        document.source[scalar.start + inset : scalar.end - inset] == scalar.text
        and "\n" not in scalar.text
    )
    return TextPlace(at.file, at.line, at.column + inset, exact)


def _block_place(scalar: Scalar, document: YamlDocument) -> TextPlace:
    """A block scalar's text starts on the line after its header; its first full line shows the
    indent."""
    line = scalar.place.line + 1
    lines = re.split(r"\r\n?|\n", document.source[scalar.start : scalar.end])[1:]
    full_lines = (
        (source, text)
        for source, text in zip(lines, scalar.text.split("\n"), strict=False)
        if text.strip()
    )
    source, text = next(full_lines, ("", ""))
    indent = indent_of(source) - (indent_of(text) if scalar.style == "|" else 0)
    return TextPlace(scalar.place.file, line, max(indent, 0) + 1, exact=scalar.style == "|")


def indent_of(line: str) -> int:
    """The spaces at its start."""
    return len(line) - len(line.lstrip(" "))

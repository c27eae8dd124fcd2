"""A search in the bytes of a CSV file for numbers that an inferred type may not hold, though
Spark's reader takes them: `02134` is 2134 for it, `1d` is 1, `1e400` is infinite.

A file in which none is found is read by Spark under its types, and is inferred by Spark alone. A
match is looked up in the texts themselves (numbers): it may stand in a column of texts. So the
search may find too much, never too little. Patterns look at whole fields: a date, a hash or an
address that starts like a number is none.

Example: of `id,zip\\n7,02134\\n` the field `02134` is found; of `id,day\\n7,01/02/2020\\n` nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import re2

from dataplane.connectors.files.reader_options import encoding_of
from dataplane.listing.encodings import is_wide

_SEPARATORS = ("sep", "delimiter", "quote", "escape", "chartoescapequoteescaping", "linesep")
# Parts of numbers, and lone surrogates
_NO_SEPARATORS = re.compile(r"[0-9A-Za-z.+\-\\\ud800-\udfff]")
_LONGEST_LINE = 1 << 20  # bytes; in a longer one numbers are taken for found
_ZEROS = 99  # behind a point, after which an exponent of two digits is too small for DOUBLE

_SPACE = r"[\x00-\x09\x0b\x0c\x0e-\x20]*"
_EXPONENT = r"(?:[eE][+\-]?[0-9]+)"
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_ENDING = rf"{_EXPONENT}?[dDfF]?"
_CODES = (  # numbers for INT, BIGINT and DOUBLE alike
    rf"0[0-9]+(?:\.[0-9]*)?{_ENDING}END",
    r"[0-9]*[^\P{Nd}0-9]",
)
_DOUBLES = (
    rf"{_NUMBER}{_EXPONENT}?[dDfF]END",
    rf"{_NUMBER}[eE][+\-]?[0-9]{{3,}}END",
    r"0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP]",
    rf"(?:0?\.0*)?[1-9](?:\.?[0-9]){{17}}[0-9.]*{_ENDING}END",  # more than 17 digits
    rf"(?:9[0-9]{{15}}|[1-9][0-9]{{16,}}){_ENDING}END",  # beyond 2^53
    rf"0?\.0{{{_ZEROS}}}",
    r"(?:NaN|Infinity)[\x00-\x09\x0b\x0c\x0e-\x20]+END",
)
_SPACED_NAME = r"[\x00-\x09\x0b\x0c\x0e-\x20]+[+\-]?(?:NaN|Infinity)"
_NAME = r"NaN|Infinity"


class Pattern(Protocol):
    def search(self, text: bytes, /) -> object | None: ...


@dataclass(slots=True)
class NumberSearch:
    """The search in one file. `options` are those of its reader, with lower-case names;
    `has_doubles`: whether DOUBLE is among the types of its columns."""

    options: Mapping[str, str]
    has_doubles: bool
    _is_found: bool = False
    _rest: bytes = b"\n"
    _pattern: Pattern | None = field(init=False)

    def __post_init__(self) -> None:
        self._pattern = _pattern_for(self.options, self.has_doubles)
        self._is_found = self._pattern is None
        self.see(self.options.get("emptyvalue", "") + "\n")  # in place of ""

    def see(self, piece: str) -> None:
        """Takes the next piece of the file's text. Lines are searched when they are complete."""
        if self._is_found or self._pattern is None:
            return
        text = self._rest + piece.encode("utf-8", "surrogatepass")
        end = text.rfind(b"\n")
        self._rest = text[end:]
        self._is_found = (
            len(self._rest) > _LONGEST_LINE or self._pattern.search(text[: end + 1]) is not None
        )

    def has_doubtful_numbers(self) -> bool:
        """Whether one was found. Call it at the end of the file: it searches the last line."""
        self.see("\n")
        return self._is_found


def _pattern_for(options: Mapping[str, str], has_doubles: bool) -> Pattern | None:
    """None where fields have no bounds that a pattern knows: parts of numbers separate them."""
    separators = "".join(options.get(name, "").replace(r"\t", "\t") for name in _SEPARATORS)
    if _NO_SEPARATORS.search(separators):
        return None
    separator = options.get("sep", options.get("delimiter", ",")).replace(r"\t", "\t")
    bounds = separator + options.get("quote", '"') + options.get("linesep", "")
    is_multiline = options.get("multiline", "false").lower() == "true" or is_wide(
        encoding_of("csv", options) or ""
    )
    has_line_breaks = is_multiline or "linesep" in options
    return _pattern("".join(sorted(set(bounds))), has_doubles, has_line_breaks)


@lru_cache(16)
def _pattern(bounds: str, has_doubles: bool, has_line_breaks: bool) -> Pattern:
    """`has_line_breaks`: whether a field may have some, which are white space around a number."""
    one_of = "".join(rf"\x{{{ord(character):x}}}" for character in bounds)
    fields = "|".join((*_CODES, *(_DOUBLES if has_doubles else ())))
    start = rf"[\n\r\x{{feff}}{one_of}]"
    pattern = rf"{start}{_SPACE}[+\-]?(?:{fields})".replace("END", rf"{_SPACE}[\n\r{one_of}]")
    if has_doubles:
        pattern += "|" + (_NAME if has_line_breaks else start + _SPACED_NAME)
    compiled: Pattern = re2.compile(pattern.encode(), _settings())
    return compiled


def _settings() -> object:
    settings = re2.Options()
    settings.encoding = re2.Options.Encoding.UTF8
    settings.never_capture = True
    return settings

"""Values in JSON files that Spark passes over without a word: all that stands behind the first one
of a line, or of a file that is to be one value.

Two values side by side are looked for by their brackets, which meet so in texts alone else: nearly
all files are seen through at once.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from dataplane.contract.results import TaskError, task_error

# Of a pattern with one bracket at its beginning Python looks for that bracket, which takes a
# quarter of the time.
_IN_A_LINE = re.compile(r"}[ \t]*[{\[]"), re.compile(r"\][ \t]*[{\[]")
_ANYWHERE = re.compile(r"}\s*[{\[]"), re.compile(r"\]\s*[{\[]")
_LONG_NUMBER = re.compile(r"\d[\d.]{15}|\d[eE][+-]?\d{3}")  # one that DOUBLE may not hold
_TAIL = 256  # characters of a piece that are looked at once more with the next one
_TOKEN = re.compile(r""""(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'|[{}\[\]]""", re.DOTALL)
_DEPTHS = {"{": 1, "[": 1, "}": -1, "]": -1}


@dataclass(slots=True)
class ValueLook:
    """Observations on a file's text, piece by piece. `options` are those of its reader, with
    lower-case names. `sees_numbers`: whether to look for long numbers, too."""

    options: Mapping[str, str]
    sees_numbers: bool = False
    is_doubtful: bool = False
    _has_long_numbers: bool = False
    _tail: str = ""

    def see(self, piece: str) -> None:
        text = self._tail + piece
        self.is_doubtful = self.is_doubtful or self._meet(text)
        if self.sees_numbers and not self._has_long_numbers:
            self._has_long_numbers = _LONG_NUMBER.search(text) is not None
        self._tail = piece[-_TAIL:]

    def has_doubtful_numbers(self) -> bool:
        return self._has_long_numbers

    def passed_over(self, file: BinaryIO, path: str, encoding: str) -> TaskError | None:
        """The first line of a doubtful file that has more than one value; or the file, if it is to
        be one."""
        with io.TextIOWrapper(file, encoding) as text:
            if self._is_one:
                problem = (
                    "it has more than one value: leave `multiLine` out, or make a list of them"
                )
                return _error(path, None, problem) if _has_second(text.read()) else None
            for number, line in enumerate(self._lines(text), 1):
                if self._meet(line) and _has_second(line):
                    return _error(
                        path, number, f"line {number} has more than one value: put each on its own"
                    )
        return None

    def _meet(self, text: str) -> bool:
        return any(beside.search(text) for beside in (_ANYWHERE if self._is_one else _IN_A_LINE))

    @property
    def _is_one(self) -> bool:
        return self.options.get("multiline", "false").lower() == "true"

    def _lines(self, text: io.TextIOWrapper) -> Iterable[str]:
        separator = self.options.get("linesep")
        return text.read().split(separator) if separator else text


def _has_second(text: str) -> bool:
    """Whether another object or list stands behind the first one."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += _DEPTHS.get(token[0], 0)
        if depth == 0 and token[0] in "}]":
            return text[token.end() :].lstrip()[:1] in ("{", "[")
    return False


def _error(path: str, line: int | None, problem: str) -> TaskError:
    return {
        **task_error("user", "several-values", f"{path}: {problem}"),
        "file": path,
        "line": line,
    }
